"""Many jobs together: their diagnoses in, what their GPU-hours went to, and what to change first, out."""

from diagnose.compare.fleet.accounting import read_accounting
from diagnose.compare.fleet.jobs import Terms
from diagnose.compare.fleet.judging import fleet_of
from diagnose.compare.fleet.reading import Read, read_fleet
from diagnose.compare.fleet.tree import tree_at

__all__ = ["Read", "Terms", "fleet_of", "read_accounting", "read_fleet", "tree_at"]
