"""Named measurements of one rank. Each returns a number, a flag or a text, or says why it cannot.

A metric is registered by being in this folder or a folder in it: every module here is imported.
"""

from importlib import import_module
from pkgutil import walk_packages

from diagnose.metrics.job_facts import merged
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import REGISTRY, Metric, measure, units
from diagnose.metrics.settings import Settings

__all__ = ["REGISTRY", "Measured", "Metric", "Settings", "measure", "merged", "units"]

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
