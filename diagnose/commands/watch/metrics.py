"""The metrics of a view, under the names that Prometheus and OpenTelemetry give them; what is unknown is no metric."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from diagnose.commands.watch.view import STATES, RankView, View
from diagnose.facts import Unknown

Point = tuple[Mapping[str, str], float]


class Metric(msgspec.Struct, frozen=True):
    """A metric with its points, each of other attributes.

    Attributes:
        prometheus: the name in Prometheus, without a prefix; it ends with the unit.
        otel: the name in OpenTelemetry, without a prefix; the unit stands beside it.
        unit: in UCUM: "s", "By", "1" of a ratio, "{step}".
        says: what it is.
        points: values by what distinguishes them.
        kind: a counter only grows.
    """

    prometheus: str
    otel: str
    unit: str
    says: str
    points: tuple[Point, ...]
    kind: Literal["gauge", "counter"] = "gauge"


_NS = 1e-9  # seconds
_OF_FACTS = {
    "now": ("step_seconds", "step.duration", "s", "Median time of the last steps.", _NS),
    "usual": ("usual_step_seconds", "step.usual_duration", "s", "Median time of all steps.", _NS),
    "left": ("remaining_seconds", "remaining", "s", "Time until the loop ends, by the mean step so far.", _NS),
    "tokens_per_s": ("tokens_per_second", "tokens.rate", "{token}/s", "Tokens per second of all ranks.", 1.0),
    "real_tokens_per_s": (
        "real_tokens_per_second", "tokens.real_rate", "{token}/s", "Tokens per second without padding.", 1.0,
    ),
    "samples_per_s": ("samples_per_second", "samples.rate", "{sample}/s", "Samples per second of all ranks.", 1.0),
    "mfu": ("mfu_ratio", "mfu", "1", "Model FLOPs utilisation in the last diagnosed window.", 1.0),
    "data_wait_share": (
        "data_wait_ratio", "data_wait", "1",
        "Part of the step that waits for data, in the last diagnosed window.", 1.0,
    ),
}  # fmt: skip
_OF_RANKS = (
    ("step", "steps_total", "steps", "{step}", "Steps done."),
    ("now_s", "step_seconds", "step.duration", "s", "Median time of the last steps."),
    (
        "goodput_share", "goodput_ratio", "goodput", "1",
        "Part of the time of its process that went into steps without what they wait for.",
    ),
    ("host_memory_bytes", "host_memory_bytes", "host_memory.usage", "By", "Memory of the process on the host."),
    (
        "device_memory_bytes", "device_memory_peak_bytes", "device_memory.peak", "By",
        "The most that its tensors took on the device so far.",
    ),
    ("sm_clock_hz", "sm_clock_hertz", "gpu.sm_clock", "Hz", "Clock of the multiprocessors of its GPU."),
    ("power_w", "power_watts", "gpu.power", "W", "Power that its GPU takes."),
)  # fmt: skip
_OF_SEVERAL = (
    ("late_s", "late_seconds", "late", "s", "Time by which a step ends after the first."),
    (
        "waited_share", "waited_for_ratio", "waited_for", "1",
        "Part of the other ranks' steps that they waited for it in the last diagnosed window.",
    ),
)  # fmt: skip


def metrics(view: View) -> Iterator[Metric]:
    """All that have a value."""
    yield from (metric for metric in (*_of_run(view), *_of_facts(view), *_of_ranks(view)) if metric.points)


def _of_run(view: View) -> Iterator[Metric]:
    states = tuple(({"state": state}, float(state == view.state)) for state in STATES)
    yield Metric("run_state", "run.state", "1", "1 for the state that the run is in.", states)
    behind = "Steps done by the rank behind all others."
    yield Metric("steps_total", "steps", "{step}", behind, (({}, view.step),), "counter")
    if view.total is not None:
        ends = "Steps after which the loop ends."
        yield Metric("planned_steps", "planned_steps", "{step}", ends, (({}, view.total),))
    if view.series is not None:
        count = sum(one.count for one in view.series.stalls)
        yield Metric("stalls", "stalls", "{stall}", "Stalls found in the step times of the run.", (({}, count),))


def _of_facts(view: View) -> Iterator[Metric]:
    for fact in view.facts:
        if fact.name in _OF_FACTS and not isinstance(fact.value, Unknown):
            prometheus, otel, unit, says, base = _OF_FACTS[fact.name]
            yield Metric(prometheus, otel, unit, says, (({}, float(fact.value) * base),))


def _of_ranks(view: View) -> Iterator[Metric]:
    for field, prometheus, otel, unit, says in (*_OF_RANKS, *(_OF_SEVERAL if view.ranks[1:] else ())):
        points = tuple((_rank(one), value) for one in view.ranks if (value := getattr(one, field)) is not None)
        kind: Literal["gauge", "counter"] = "counter" if field == "step" else "gauge"
        yield Metric(f"rank_{prometheus}", f"rank.{otel}", unit, says, points, kind)


def _rank(rank: RankView) -> Mapping[str, str]:
    return {"rank": str(rank.rank), "host": rank.host}
