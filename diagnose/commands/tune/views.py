"""The trials of a tune in words and columns that every form of its report shares."""

import csv
import io
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from diagnose.commands.tune.answer import DONE, LeftToUser, Measured, Rung, Settings, Tuning
from diagnose.commands.tune.evidence import hides_a_gain
from diagnose.diagnosis.terms import Estimate, Speedup
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.gains import FINE, factor, gain
from diagnose.report.views.plain import plain
from diagnose.report.views.user_code import where_line

COLUMNS = (
    "model",
    "gpus",
    "micro_batch",
    "seq_len",
    "model_precision",
    "mixed_precision",
    "attention",
    "liger",
    "tokens_per_s_per_gpu",
    "memory_gb",
)
"""Of a table of trials, as `benchmarks/ladder.csv` has them."""
_NO_CHANGE = ("first", "again", "held", "not held")
_SHORT = {
    "per_device_train_batch_size": "batch",
    "batch_size": "batch",
    "gradient_accumulation_steps": "accumulation",
    "dataloader_num_workers": "workers",
    "num_workers": "workers",
    "torch_compile": "compile",
}
_MEASURED = {
    "per_device_train_batch_size": "micro_batch",
    "batch_size": "micro_batch",
    "gradient_accumulation_steps": "accumulation_steps",
}
_FURTHER = (
    "decision",
    "rule",
    "change",
    "predicted_low",
    "predicted_high",
    "achieved_low",
    "achieved",
    "achieved_high",
    "total",
    "samples_per_s",
    "step_ms",
    "seconds",
    "because",
)
_DIGITS = {"tokens_per_s_per_gpu": ".0f", "memory_gb": ".2f", "samples_per_s": ".4g", "step_ms": ".4g"}
SHOWN = {  # heads of the columns next to the change, if the first run knows them
    "gpus": "gpus",
    "micro_batch": "batch",
    "seq_len": "seq",
    "model_precision": "weights",
    "mixed_precision": "mixed",
    "attention": "attention",
    "liger": "liger",
    "tokens_per_s_per_gpu": "tok/s/gpu",
    "samples_per_s": "samples/s",
    "step_ms": "step ms",
    "memory_gb": "GB",
}


@dataclass(frozen=True)
class RungView:
    """A row; `inside` is the comparison with the prediction, "" if either is not known."""

    number: int
    change: str
    because: str
    cells: tuple[str, ...]
    predicted: str
    achieved: str
    total: str
    outcome: str
    inside: str


@dataclass(frozen=True)
class TuningView:
    """The table of trials with its headings, the lines to type and the changes left, each with what to do.

    `constant` names what all measured runs share, and no column shows.
    """

    result: str
    command: str
    heads: tuple[str, ...]
    constant: str
    rows: tuple[RungView, ...]
    patch: tuple[str, ...]
    left: tuple[tuple[str, str], ...]


def tuning_view(tuning: Tuning) -> TuningView:
    """All parts of a page of the tune."""
    known = known_columns(tuning.rungs[0].measured if tuning.rungs else None)
    columns = tuple(name for name in known if len(_values(tuning, name)) > 1)
    constant = ((SHOWN[name], *_values(tuning, name)) for name in known if name not in columns)
    return TuningView(
        result=result(tuning),
        command=plain(shlex.join(tuning.command)),
        heads=tuple(SHOWN[name] for name in columns),
        constant=", ".join(" ".join(pair) for pair in constant),
        rows=tuple(_row(rung, columns, tuning.rungs[:at]) for at, rung in enumerate(tuning.rungs)),
        patch=tuple(plain(line) for line in tuning.patch),
        left=tuple((left_line(left), to_do(left)) for left in tuning.left),
    )


def _values(tuning: Tuning, column: str) -> list[str]:
    """The different values of the column."""
    return list(dict.fromkeys(filter(None, (_cells(rung.measured, (column,))[0] for rung in tuning.rungs))))


def _row(rung: Rung, columns: tuple[str, ...], earlier: Sequence[Rung]) -> RungView:
    return RungView(
        number=rung.number,
        change=differing(rung, earlier),
        because="" if rung.decision == "kept" else plain(rung.because),
        cells=tuple(cells(rung, columns)),
        predicted=predicted(rung.predicted),
        achieved=_interval(rung.achieved),
        total=achieved(rung.total),
        outcome=outcome(rung),
        inside=_inside(rung),
    )


def _interval(estimate: Estimate | None) -> str:
    return "" if estimate is None else f"{estimate[1]:.2f}x ({estimate[0]:.2f}-{estimate[2]:.2f}x)"


def _inside(rung: Rung) -> str:
    """Comparison of the run with its prediction; "" for a change that is not in use."""
    if rung.decision == "refused":
        return ""
    return rung.judgement.spoken if rung.judgement else ""


def trials_csv(tuning: Tuning) -> str:
    """The table of trials with the columns of `benchmarks/ladder.csv`, followed by the predicted and achieved speed."""
    into = io.StringIO()
    writer = csv.writer(into, lineterminator="\n")
    writer.writerow(["source", "row", *COLUMNS, "outcome", *_FURTHER])
    for rung in tuning.rungs:
        writer.writerow(["diagnose tune", rung.number, *_cells(rung.measured, COLUMNS), rung.outcome, *_further(rung)])
    return into.getvalue()


def _further(rung: Rung) -> list[str]:
    predicted, achieved = rung.predicted or (None, None), rung.achieved or (None, None, None)
    factors = [_factor(value) for value in (*predicted, *achieved, rung.total[1] if rung.total else None)]
    speeds = _cells(rung.measured, ("samples_per_s", "step_ms"))
    return [rung.decision, rung.rule, plain(rung.change), *factors, *speeds, f"{rung.seconds:.1f}", plain(rung.because)]


def known_columns(first: Measured | None) -> tuple[str, ...]:
    """The columns that the first run knows, and so the table of trials shows; a job without GPUs has no count of
    them.
    """
    if first is None:
        return ()
    return tuple(name for name in SHOWN if getattr(first, name) is not None and (name != "gpus" or first.gpus))


def cells(rung: Rung, columns: tuple[str, ...]) -> list[str]:
    """The rung in these columns; "" is not known."""
    return _cells(rung.measured, columns)


def outcome(rung: Rung) -> str:
    """The result of the run, in a word or two."""
    if rung.decision == "first":
        return "measured"
    failed = {"oom": "out of memory", "failed": "failed"}.get(rung.outcome, "")
    return failed or {"rolled back": _rolled_back(rung)}.get(rung.decision, rung.decision)


def is_not_shown(rung: Rung) -> bool:
    """Whether the noise may hide a gain of a change that is rolled back."""
    return rung.decision == "rolled back" and rung.achieved is not None and hides_a_gain(rung.achieved)


def _rolled_back(rung: Rung) -> str:
    worse = rung.achieved is not None and rung.achieved[2] < 1
    return "slower" if worse else "not shown" if is_not_shown(rung) else "no gain"


def predicted(speedup: Speedup | None) -> str:
    """The range: `1.20-1.50x`."""
    if speedup is None:
        return ""
    low, high = speedup
    return f"{low:.2f}x or more" if high is None else f"{low:.2f}-{high:.2f}x"


def achieved(estimate: Estimate | None) -> str:
    """The measured speed: `1.41x`."""
    return "" if estimate is None else f"{estimate[1]:.2f}x"


def head(tuning: Tuning) -> list[ScreenLine]:
    """The result, the changes to keep, and the first change that is left to the user."""
    first = next(iter(tuning.left), None)
    return [
        ScreenLine("result", result(tuning), warns=not _kept(tuning)),
        ScreenLine("keep", plain("; ".join(tuning.patch)), is_code=True),
        ScreenLine("left", left_line(first) if first else ""),
    ]


def result(tuning: Tuning) -> str:
    """The end in a sentence."""
    kept = _kept(tuning)
    runs = f"{len(tuning.rungs)} run{'s' if len(tuning.rungs) != 1 else ''}"
    end = _end(tuning)
    if not kept:
        return f"{_none_kept(tuning)} ({runs}{end})"
    if tuning.best is tuning.rungs[0]:
        return f"nothing is kept: the faster run did not hold when it was repeated ({runs}{end})"
    repeat = tuning.repeat_of(kept[-1])
    total = repeat.total if repeat is not None else kept[-1].total
    changes = f"{len(kept)} change{'s' if len(kept) != 1 else ''}"
    once = "" if repeat is not None or not tuning.why_ended else "; measured once"
    return f"{_faster(total) if total else 'faster'} with {changes}, after {runs}{once}{end}"


def _faster(total: Estimate) -> str:
    low, middle, high = total
    fine = high < FINE * low
    return f"{factor(middle, fine)}x faster ({factor(low, fine)}-{factor(high, fine)}x)"


def _kept(tuning: Tuning) -> list[Rung]:
    return [rung for rung in tuning.rungs if rung.decision == "kept"]


def _end(tuning: Tuning) -> str:
    """Why the tune ended, unless nothing was left to try."""
    if not tuning.why_ended:
        return "; not at its end"
    return "" if tuning.why_ended == DONE else f"; {tuning.why_ended}"


def _none_kept(tuning: Tuning) -> str:
    hidden = [plain(rung.change) for rung in tuning.rungs if is_not_shown(rung)]
    if hidden:
        return f"no gain is shown, and the noise of these runs may hide one of {', '.join(hidden)}"
    tried = [rung for rung in tuning.rungs if rung.decision not in _NO_CHANGE]
    if not tried and tuning.why_ended == DONE:
        why = "the only changes left need an edit, or your consent" if tuning.left else "the plan holds no change"
        return f"nothing could be tried: {why}"
    if not tried:
        return "no change was tried yet"
    each = "the change" if len(tried) == 1 else f"none of {len(tried)} changes"
    return f"nothing helped: {each} made the job{' no' if len(tried) == 1 else ' measurably'} faster"


def differing(rung: Rung, earlier: Sequence[Rung]) -> str:
    """The change of a run by what differs from the run before it: "batch 1 -> 8, accumulation 8 -> 1"."""
    if not rung.own or rung.repeats is not None:
        return plain(rung.change)
    before = next((one.settings for one in reversed(earlier) if one.stands), {})
    measured = next((one.measured for one in reversed(earlier) if one.stands), None)
    parts = []
    for key, value in sorted(_pairs(rung.own), key=lambda pair: pair[0] not in _SHORT):
        old = dict(_pairs(before)).get(key)
        if old is None and key in _MEASURED and measured is not None:
            old = getattr(measured, _MEASURED[key])
        if old != value:
            name = _SHORT.get(key, key.removeprefix("dataloader_").replace("_", " "))
            new = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
            parts.append(f"{name} {new}" if old is None or isinstance(value, bool) else f"{name} {old} -> {new}")
    return plain(", ".join(parts)) or plain(rung.change)


def _pairs(settings: Settings) -> list[tuple[str, object]]:
    return [(key, value) for keys in settings.values() for key, value in keys.items()]


def left_line(left: LeftToUser) -> str:
    """A change for the user, with its prediction and why no run made it."""
    told = f" ({gain(left.predicted, left.likely)})" if left.predicted else ""
    return plain(f"{left.change}{told}: {left.because}")


def to_do(left: LeftToUser) -> str:
    """Advice and its lines; "" if the change says it all."""
    return " ".join(filter(None, (f"{where_line(left.where)}." if left.where else "", plain(left.do))))


def _cells(measured: Measured | None, names: tuple[str, ...]) -> list[str]:
    return ["" if measured is None else _cell(name, getattr(measured, name)) for name in names]


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return format(value, _DIGITS[name]) if name in _DIGITS else plain(str(value))


def _factor(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"
