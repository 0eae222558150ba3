"""The register of the groups of kernels that a rule's `[whatif]` may name."""

from collections.abc import Callable
from typing import TypeVar

from diagnose.arrays import Mask
from diagnose.facts import Unknown
from diagnose.metrics.measured import Measured

Group = Mask | Unknown
Grouping = Callable[[Measured], Group]
Own = TypeVar("Own", bound=Grouping)

GROUPS: dict[str, Grouping] = {}


def group(name: str) -> Callable[[Own], Own]:
    """Register a function as the group of that name; it returns which activities of the GPU belong."""

    def register(function: Own) -> Own:
        GROUPS[name] = function
        return function

    return register
