"""`run --apply`, `compare`, `tune` and the ledger judge a pair of runs alike, by the same measured speed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from made_up_jobs import MS, diagnosed, planned
from msgspec.structs import replace

from diagnose.cli import main
from diagnose.commands.ledger import file
from diagnose.commands.ledger.prediction import Prediction, prediction_of_patch
from diagnose.commands.tune.judging import judged_rung
from diagnose.commands.tune.proposals import Proposal
from diagnose.commands.tune.running import EndedRun
from diagnose.diagnosis import Diagnosis, Evidence, FactReport
from diagnose.diagnosis.promise import Judgement
from diagnose.facts import Fact, Scalar
from diagnose.judge.applied import applied_of
from diagnose.patch.expected import expected_of
from diagnose.trace.record import CaptureRecord

UNITS = {"gpu_clock_mhz": "mhz", "gpu_processes": "count", "loader_workers": "text"}
WAIT, NO_WAIT = {"data_wait_share": 0.4}, {"data_wait_share": 0.01}
RULE = "data-wait"
PATCH = {"training_arguments": {"dataloader_num_workers": 4}}


@dataclass(frozen=True)
class Pair:
    """A promise, the steps of both runs in milliseconds, their facts, and how the promise stands."""

    name: str
    promise: tuple[float, float]
    steps_ms: tuple[float, float]
    stands: str
    before: Mapping[str, Scalar] = field(default_factory=lambda: WAIT)
    after: Mapping[str, Scalar] = field(default_factory=lambda: NO_WAIT)
    on_gpu: bool = True
    spread: float = 0.001
    says: str = ""


def disturbed(name: str, fact: str, before: float, after: float, says: str) -> Pair:
    """The wait is gone, the step is faster, and the machine is another one."""
    return Pair(name, (1.3, 1.6), (100, 70), "unjudged", WAIT | {fact: before}, NO_WAIT | {fact: after}, says=says)


PAIRS = (
    Pair("as promised", (1.3, 1.6), (100, 70), "as"),
    Pair("at the low end", (1.3, 1.6), (100, 100 / 1.3), "as"),
    Pair("at the high end", (1.3, 1.6), (100, 100 / 1.6), "as"),
    Pair("less than promised", (1.3, 1.6), (100, 90), "less"),
    Pair("nothing gained, though cured", (1.3, 1.6), (100, 100), "less"),
    Pair("slower than before", (1.3, 1.6), (100, 130), "less"),
    Pair("more than promised", (1.3, 1.6), (100, 50), "more"),
    Pair("a small gain", (1.02, 1.1), (100, 95), "as"),
    Pair("a large gain", (3.0, 9.0), (100, 20), "as"),
    Pair("promised to slow it down", (0.8, 1.2), (100, 105), "as"),
    Pair("no GPU, a gain beyond the noise", (1.5, 3.0), (1000, 500), "as", on_gpu=False),
    Pair("no GPU, short steps that hide a gain", (1.1, 1.6), (100, 80), "unjudged", on_gpu=False, says="noise"),
    Pair("noise that hides the gain", (1.1, 1.4), (100, 80), "unjudged", spread=1.0, says="noise"),
    Pair(
        "the machine hardly changed", (1.3, 1.6), (100, 70), "as",
        WAIT | {"core_wait_share": 0.36}, NO_WAIT | {"core_wait_share": 0.31},
    ),
    Pair(
        "the change itself frees cores", (1.3, 1.6), (100, 70), "as",
        {"core_wait_share": 0.65}, {"core_wait_share": 0.31},
    ),
    disturbed("a core is free now", "core_wait_share", 0.65, 0.31, "core_wait_share 65.0 % -> 31.0 %"),
    disturbed("others left the cores", "others_cpu_share", 0.5, 0.0, "others_cpu_share 50.0 % -> 0.0 %"),
    disturbed("the GPU clocks higher", "gpu_clock_mhz", 1200, 1980, "gpu_clock_mhz 1,200 MHz -> 1,980 MHz"),
    disturbed("another process left the GPU", "gpu_processes", 2, 1, "gpu_processes 2 -> 1"),
    Pair(
        "faster, and nothing was cured", (1.3, 1.6), (100, 70), "unjudged",
        {"padding_share": 0.421}, {"padding_share": 0.43}, says="nothing was cured: padding_share 42.1 % -> 43.0 %",
    ),
)  # fmt: skip


def run(step_ms: float, pair: Pair, facts: Mapping[str, Scalar]) -> Diagnosis:
    """The run; the rule fires on what is not a fact of the machine, else on that."""
    made = diagnosed(step_ms, [planned(RULE, pair.promise, **PATCH["training_arguments"])], spread=pair.spread)
    cured = [name for name in pair.before if len(pair.before) == 1 or name == "data_wait_share"]
    known = {**facts, "has_gpu": pair.on_gpu, "unprofiled_step_time_ns": step_ms * MS}
    evidence = tuple(Evidence(fact=name, value=pair.before[name], unit=_unit(name), of="") for name in cured)
    return replace(
        made,
        steps=made.steps if pair.on_gpu else replace(made.steps, device_time_ns=None),
        findings=tuple(replace(finding, evidence=evidence) for finding in made.findings),
        facts=tuple(FactReport(name=name, value=value, unit=_unit(name)) for name, value in known.items()),
        mfu=replace(made.mfu, tokens_per_step=None),
    )


def _unit(name: str) -> str:
    return UNITS.get(name, "share")


def both(pair: Pair) -> tuple[Diagnosis, Diagnosis]:
    """The run as it is, and the run with the change as `run --apply` diagnoses it."""
    before, after = run(pair.steps_ms[0], pair, pair.before), run(pair.steps_ms[1], pair, pair.after)
    record = {"applied": PATCH, "refused": [], "expected": expected_of(msgspec.json.decode(before.to_json()), RULE)}
    facts = {fact.name: Fact(fact.name, fact.value, fact.unit) for fact in after.facts if fact.value is not None}
    applied = applied_of(CaptureRecord(record), facts, after.steps)
    return before, replace(after, applied=applied, findings=(), plan=())


@pytest.mark.parametrize("pair", PAIRS, ids=[pair.name for pair in PAIRS])
def test_four_commands_judge_a_pair_alike(pair: Pair, tmp_path: Path) -> None:
    before, after = both(pair)
    assert after.applied is not None
    of_run, measured = after.applied.judgement, after.applied.measured

    of_compare, compared = judged_by_compare(before, after, tmp_path)
    of_tune, achieved = judged_by_tune(before, after, pair)

    assert of_run is not None
    assert (of_run.standing, pair.says in of_run.because) == (pair.stands, True), of_run.spoken
    assert (of_compare, of_tune) == (of_run, of_run)
    assert measured is not None
    assert (compared, achieved) == (pytest.approx(measured[1]), pytest.approx(measured[1]))
    kept = [prediction_of_patch(after), *of_ledger(tmp_path)]
    assert [each.inside for each in kept if each] == ([] if pair.stands == "unjudged" else [pair.stands == "as"] * 2)
    assert all(each is None or each.achieved[1] == pytest.approx(measured[1], rel=1e-5) for each in kept)


def judged_by_compare(before: Diagnosis, after: Diagnosis, folder: Path) -> tuple[Judgement, float]:
    for name, made in (("a.json", before), ("b.json", after)):
        (folder / name).write_text(made.to_json())
    ours = {"DIAGNOSE_LEDGER": "on", "DIAGNOSE_DATA_DIR": str(folder / "data")}
    told = CliRunner(env=ours).invoke(main, ["compare", str(folder / "a.json"), str(folder / "b.json"), "--json"])
    promise = msgspec.json.decode(told.stdout)["promise"]
    return msgspec.convert(promise["judgement"], Judgement), promise["measured"][1]


def judged_by_tune(before: Diagnosis, after: Diagnosis, pair: Pair) -> tuple[Judgement | None, float | None]:
    proposal = Proposal(rule=RULE, change="workers", patch=None, settings=PATCH, predicted=pair.promise)
    rung = judged_rung(1, proposal, PATCH, EndedRun("ok", after), (before, before, after), None, may_repeat=False)
    return rung.judgement, rung.achieved and rung.achieved[1]


def of_ledger(folder: Path) -> tuple[Prediction, ...]:
    return file.read(folder / "data").predictions if (folder / "data").exists() else ()
