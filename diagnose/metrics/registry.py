"""The register of metrics: a function with the decorator `metric` is one, named as the function is."""

import math
from collections.abc import Callable

import msgspec
import numpy as np

from diagnose.errors.defects import netted
from diagnose.facts import A_DEFECT, HOST_STEP, STEP, Fact, Facts, Unit, Unknown, Value
from diagnose.metrics.measured import Measured
from diagnose.metrics.nsight import in_terms_of_recorder
from diagnose.metrics.recorded_shapes import where_recorded
from diagnose.metrics.unknowns import not_asked_again


class Metric(msgspec.Struct, frozen=True):
    """A named measurement; `of` is the denominator of a share; STEP is the host step for a job without a GPU."""

    name: str
    unit: Unit
    of: str
    doc: str
    needs_gpu: bool
    function: Callable[[Measured], Value]

    def measure(self, measured: Measured) -> Fact:
        """The fact for one rank."""
        blocked = measured.without_gpu if self.needs_gpu else None
        value = blocked if blocked is not None else netted(self.name, lambda: self._measured(measured), _not_judged)
        value = where_recorded(in_terms_of_recorder(value, measured.timeline.trace), measured)
        value = not_asked_again(value, bool(measured.record))
        on_host = self.of == STEP and not self.needs_gpu and not measured.timeline.has_gpu
        return Fact(self.name, value, self.unit, HOST_STEP if on_host else self.of)

    def _measured(self, measured: Measured) -> Value:
        value = _plain(self.function(measured))
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{value} is no measurement")
        return value


REGISTRY: dict[str, Metric] = {}


def metric(
    unit: Unit, of: str = "", *, needs_gpu: bool = True
) -> Callable[[Callable[[Measured], Value]], Callable[[Measured], Value]]:
    """Register a function as the metric of its name; its docstring is the metric's page.

    Args:
        unit: one of `Unit`; the name ends with it unless it is a flag, text, count or version.
        of: the denominator of a share.
        needs_gpu: whether it is unknown in a trace without GPU activity.
    """

    def register(function: Callable[[Measured], Value]) -> Callable[[Measured], Value]:
        name = function.__name__
        doc = " ".join((function.__doc__ or "").split())
        REGISTRY[name] = Metric(name, unit, of, doc, needs_gpu, function)
        return function

    return register


def units() -> dict[str, str]:
    """The unit of every metric, by name: what a rule may read."""
    return {name: REGISTRY[name].unit for name in sorted(REGISTRY)}


def measure(measured: Measured) -> Facts:
    """Every registered metric of one rank, by name."""
    return {name: REGISTRY[name].measure(measured) for name in sorted(REGISTRY)}


def _not_judged(because: str) -> Unknown:
    return Unknown(because, A_DEFECT)


def _plain(value: Value) -> Value:
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, np.integer):
        return int(value)
    return float(value) if isinstance(value, np.floating) else value
