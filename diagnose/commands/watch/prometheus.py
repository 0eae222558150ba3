"""A view in the text format of Prometheus, for the textfile collector of its node exporter; unknown is left out."""

from collections.abc import Iterator, Mapping

from diagnose.commands.watch.view import STATES, RankView, View
from diagnose.facts import Unknown

_BASE = {"ns": 1e-9}  # in the unit that the name says: seconds, ratios of 1
_OF_FACTS = {
    "now": ("step_seconds", "Median time of the last steps."),
    "usual": ("usual_step_seconds", "Median time of all steps."),
    "left": ("remaining_seconds", "Time until the loop ends, by the mean step so far."),
    "tokens_per_s": ("tokens_per_second", "Tokens per second of all ranks."),
    "samples_per_s": ("samples_per_second", "Samples per second of all ranks."),
    "mfu": ("mfu_ratio", "Model FLOPs utilisation in the last diagnosed window."),
    "data_wait_share": ("data_wait_ratio", "Part of the step that waits for data, in the last diagnosed window."),
}
Labels = Mapping[str, str]
Samples = list[tuple[Labels, float]]


def exposition(view: View, run: str) -> str:
    """The metrics of the run, each labelled with its name `run`."""
    return "".join(_lines(view, {"run": run}))


def _lines(view: View, run: Labels) -> Iterator[str]:
    states: Samples = [({**run, "state": state}, float(state == view.state)) for state in STATES]
    yield from _metric("run_state", "gauge", "1 for the state that the run is in.", states)
    yield from _metric("steps_total", "counter", "Steps done by the rank behind all others.", [(run, view.step)])
    if view.total is not None:
        yield from _metric("planned_steps", "gauge", "Steps after which the loop ends.", [(run, view.total)])
    for fact in view.facts:
        name, says = _OF_FACTS[fact.name]
        if not isinstance(fact.value, Unknown):
            value = float(fact.value) * _BASE.get(fact.unit, 1.0)
            yield from _metric(name, "gauge", says, [(run, value)])
    if view.series is not None:
        count = sum(one.count for one in view.series.stalls)
        yield from _metric("stalls", "gauge", "Stalls found in the step times of the run.", [(run, count)])
    yield from _of_ranks(view, run)


def _of_ranks(view: View, run: Labels) -> Iterator[str]:
    ranks = [({**run, "rank": str(one.rank), "host": one.host}, one) for one in view.ranks]

    def known(value: str) -> Samples:
        return [(labels, found) for labels, one in ranks if (found := _value(one, value)) is not None]

    yield from _metric("rank_steps_total", "counter", "Steps done.", known("step"))
    yield from _metric("rank_step_seconds", "gauge", "Median time of the last steps.", known("now_s"))
    if ranks[1:]:
        yield from _metric("rank_late_seconds", "gauge", "Time by which a step ends after the first.", known("late_s"))
        waited = "Part of the other ranks' steps that they waited for it in the last diagnosed window."
        yield from _metric("rank_waited_for_ratio", "gauge", waited, known("waited_share"))


def _value(rank: RankView, name: str) -> float | None:
    found: float | None = getattr(rank, name)
    return found


def _metric(name: str, kind: str, says: str, samples: Samples) -> Iterator[str]:
    if not samples:
        return
    yield f"# HELP diagnose_{name} {says}\n# TYPE diagnose_{name} {kind}\n"
    for labels, value in samples:
        given = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"diagnose_{name}{{{given}}} {value:.10g}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
