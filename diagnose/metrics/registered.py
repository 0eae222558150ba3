"""The register with every metric in it: all modules of the folder are imported, and those of its folders."""

from importlib import import_module
from os.path import dirname
from pkgutil import walk_packages

from diagnose.metrics.registry import REGISTRY, Metric, measure, units

__all__ = ["REGISTRY", "Metric", "measure", "units"]

for _module in walk_packages([dirname(__file__)], f"{__package__}."):
    import_module(_module.name)
