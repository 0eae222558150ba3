"""How far replayed and predicted iteration times are from true ones: the metric of the papers on replay.

    python -m benchmarks.accuracy.replay --write      # six minutes

A configuration is a job of the accuracy corpus, or a public trace (DIAGNOSE_REAL_TRACES and DIAGNOSE_MORE_TRACES name
their folders). Its error is the distance of one iteration time from another, as a share of the true one. Three are told
apart. Unchanged: the replay by the trace's own medians against the steps of the same trace, as Lumos and dPRO state it.
Changed: the step that a change is predicted to leave, from a trace without it, against the simulator's run of the job
with it. A pair: the same between two traces of one real job.
"""

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

from measuring import rules_read_once
from reporting import page, parser, publish, table

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError

from .run import FULL_SEEDS, cases_of, outcomes_of
from .score import Outcome

FOLDERS = ("DIAGNOSE_REAL_TRACES", "DIAGNOSE_MORE_TRACES")
BEFORE, AFTER, CHANGE = "resnet50-v100-workers0", "resnet50-v100-workers4", "data-wait"
ABOUT = "An error is a share of the true iteration time."
UNCHANGED = """\
## Unchanged: the trace's own steps

No activity keeps the delay that it was measured with, but kernels and the host's code keep their times: a small error
says that the model of a step holds, and nothing about changes. Of such replays Lumos states a mean error of 3.3 %, and
14 % for dPRO, on jobs of its own."""
CHANGED = """\
## Changed: the job with one change made

What is foretold is a range. Its middle stands for it, and the distance to the nearer end, nothing inside it."""
Row = tuple[str, str, str, str]


def main() -> None:
    """Prints the report, and writes it where a folder is given."""
    options = parser(__doc__)
    options.add_argument("--seeds", type=int, nargs="+", default=FULL_SEEDS, help="of the corpus")
    options.add_argument("--only", default="", help="jobs whose name holds this")
    options.add_argument("--jobs", type=int, default=2, help="processes")
    stated = options.parse_args()
    cases = [case for case in cases_of("full", stated.seeds) if stated.only in case.label and case.kept == 1]
    outcomes = outcomes_of(cases, stated.jobs, lambda outcome: None)
    publish(report(outcomes, dict(_real())), stated.write, "replay")


def report(outcomes: Sequence[Outcome], real: dict[str, Diagnosis]) -> str:
    """Every figure, in Markdown."""
    held = [d for d in real.values() if d.replay.valid]
    summaries = [
        _summary("a rank of each simulated job", [o.answer.replay_error for o in outcomes]),
        _summary("all ranks of each simulated job", [o.answer.joint_error for o in outcomes]),
        _summary("a rank of each real trace", [d.replay.strict_error for d in held]),
        _summary("all ranks of each real run", [_joint(d) for d in held]),
    ]
    traces = [(name, _share(d.replay.strict_error), _share(_joint(d)), d.replay.because) for name, d in real.items()]
    return page(
        "Replayed and predicted iteration times",
        ABOUT,
        UNCHANGED,
        table(("configurations", "mean error", "median", "largest"), summaries),
        table(("trace", "one rank", "all ranks together", "predictions withheld because"), traces),
        CHANGED,
        table(("change", "jobs", "mean error of the middle", "mean distance from the range"), _changes(outcomes)),
        f"## A pair of real traces\n\n{_pair(real)}",
    )


def _summary(name: str, errors: Sequence[float | None]) -> Row:
    known = [error for error in errors if error is not None and math.isfinite(error)]
    if not known:
        return f"{name}: 0", "", "", ""
    return f"{name}: {len(known)}", _share(mean(known)), _share(median(known)), _share(max(known))


def _changes(outcomes: Sequence[Outcome]) -> list[Row]:
    """A row for each rule, the most frequent first, and one for all together."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for outcome in outcomes:
        for rule, low, high, gain in outcome.ranges:
            found.setdefault(rule, []).append((low, high, gain))
    rows = sorted(found.items(), key=lambda item: -len(item[1]))
    together = [one for each in found.values() for one in each]
    return [_errors(name, each) for name, each in [("every change", together), *rows] if each]


def _errors(name: str, ranges: Sequence[tuple[float, float, float]]) -> Row:
    """A step that is foretold to be 1/p as long and becomes 1/g is foretold g/p of what it is."""
    middle = [abs(gain / math.sqrt(low * high) - 1) for low, high, gain in ranges]
    outside = [max(gain / high - 1, 1 - gain / low, 0.0) for low, high, gain in ranges]
    return name, str(len(ranges)), _share(mean(middle)), _share(mean(outside))


def _pair(real: dict[str, Diagnosis]) -> str:
    """ResNet-50 that loads its data in the loop, and with four workers."""
    before, after = real.get(BEFORE), real.get(AFTER)
    promised = before and next((f.predicted_speedup for f in before.findings if f.rule == CHANGE), None)
    if not before or not after or not promised or promised[1] is None:
        return "Not measured: the pair is not among the traces."
    (low, high), gain = (promised[0], promised[1]), _step_ns(before) / _step_ns(after)
    rows = [_errors(f"{BEFORE}, {CHANGE}: {low:.2f}-{high:.2f}x foretold, {gain:.2f}x measured", [(low, high, gain)])]
    return table(("pair", "jobs", "error of the middle", "distance from the range"), rows)


def _step_ns(diagnosis: Diagnosis) -> float:
    steps = diagnosis.steps
    return (steps.device_time_ns or steps.time_ns) / max(steps.count, 1)


def _joint(diagnosis: Diagnosis) -> float | None:
    return diagnosis.postmortem.changes_error if diagnosis.postmortem else None


def _share(error: float | None) -> str:
    return "" if error is None else f"{100 * error:.2f} %"


def _real() -> Iterator[tuple[str, Diagnosis]]:
    """Each run that can be read: a folder of ranks, or each file of a folder that holds several runs or none."""
    with rules_read_once():
        for path in (path for name in FOLDERS if name in os.environ for path in _runs(Path(os.environ[name]))):
            try:
                found = analyze(path)
            except UserError:
                continue
            if found.replay.strict_error is not None:
                yield path.name, found


def _runs(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir() and "pair" not in path.name and path.name != "damaged":
            yield path
        elif path.is_dir() and path.name != "damaged":
            yield from sorted(path.glob("*.json*"))
        elif ".json" in path.name:
            yield path


if __name__ == "__main__":
    main()
