"""GPU peaks: the table of boards, and what is known of the device of one run. An unknown device stays unknown."""

from diagnose.hardware.device import PRECISIONS, Device, resolve
from diagnose.hardware.table import Gpu, lookup, table

__all__ = ["PRECISIONS", "Device", "Gpu", "lookup", "resolve", "table"]
