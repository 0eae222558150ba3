"""A simulated job with some of its fields set as a table says."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from simulator.faults import evened

JobT = TypeVar("JobT")
MULTIPLE = 64


def changed(job: JobT, changes: Mapping[str, Any], step_ms: float = 0.0) -> JobT:
    """The job with these fields set to values, or to what a text says of them.

    "x0.5" is half of what it has, "t0.5" half of `step_ms`, "usual" what the field has unless stated, "aligned" the
    next multiple of 64, "mended" the faults but those of links, and "evened" those of which only the work is left,
    shared by all ranks. A point leads into a field, as in "shape.batch". A list becomes a tuple.
    """
    for path, stated in changes.items():
        name, _, rest = path.partition(".")
        own = getattr(job, name)
        value = changed(own, {rest: stated}, step_ms) if rest else _value(job, name, stated, step_ms)
        job = replace(job, **{name: value})  # type: ignore[type-var]
    return job


def _value(job: object, name: str, stated: Any, step_ms: float) -> Any:
    own = getattr(job, name)
    if stated == "usual":
        return getattr(type(job)(), name)
    if stated == "mended":
        return tuple(fault for fault in own if fault.kind != "slow_link")
    if stated == "evened":
        return evened(own, job.ranks)  # type: ignore[attr-defined]
    if stated == "aligned":
        return -(-own // MULTIPLE) * MULTIPLE
    if isinstance(stated, list):
        return tuple(stated)
    for kind, whole in (("x", own), ("t", step_ms)):
        if (factor := factor_in(stated, kind)) is not None:
            return round(factor * whole) if isinstance(own, int) else factor * whole
    return stated


def factor_in(stated: object, kind: str) -> float | None:
    """The number in a text such as "x0.5", whose first letter is `kind`; None if it is something else."""
    is_factor = isinstance(stated, str) and stated[:1] == kind and stated[1:2].isdigit()
    return float(str(stated)[1:]) if is_factor else None
