"""What is tried, kept and left: climbs of jobs that are made up."""

from pathlib import Path
from typing import Any

import pytest
from made_up_jobs import MadeUpRuns, climbed, diagnosed, planned
from msgspec.structs import replace

from diagnose.commands.tune.answer import Settings
from diagnose.commands.tune.running import EndedRun
from diagnose.commands.tune.settings import value_of
from diagnose.diagnosis import Applied, CodeLine, Diagnosis, NotApplied, Patch, PlanStep
from diagnose.errors import UserError

BF16 = planned("half", (1.5, 2.0), bf16=True)
FUSED = planned("fused", (1.1, 1.2), optim="adamw_torch_fused")
HEAD = Patch(target="training_arguments", set={"bf16": True})


def speeds(settings: Settings) -> Diagnosis:
    """bf16 makes the step 1.6x as fast and the fused optimizer slower, whatever was promised."""
    step_ms = 100.0 / (1.6 if value_of(settings, "bf16") else 1.0) * (1.1 if value_of(settings, "optim") else 1.0)
    left = [step for step in (BF16, FUSED) if step.patch and not value_of(settings, *step.patch.set)]
    return diagnosed(step_ms, left, settings)


def test_what_helps_is_kept_and_the_rest_rolled_back(tmp_path: Path) -> None:
    runs = MadeUpRuns(speeds)
    tuning = climbed(tmp_path, runs)

    assert [(rung.rule, rung.decision) for rung in tuning.rungs] == [
        ("", "first"),
        ("half", "kept"),
        ("fused", "rolled back"),
    ]
    assert runs.asked == [
        {},
        {"training_arguments": {"bf16": True}},
        {"training_arguments": {"bf16": True, "optim": "adamw_torch_fused"}},
    ]
    assert tuning.rungs[1].achieved is not None
    assert tuning.rungs[1].achieved[1] == pytest.approx(1.6)
    assert (tuning.patch, tuning.why_ended) == (("TrainingArguments(..., bf16=True)",), "nothing is left to try")


def test_each_run_carries_what_is_predicted_of_its_change(tmp_path: Path) -> None:
    runs = MadeUpRuns(speeds)
    climbed(tmp_path, runs)

    assert runs.expected[0] is None
    assert [(known["rule"], known["speedup"]) for known in runs.expected[1:] if known] == [
        ("half", [1.5, 2.0]),
        ("fused", [1.1, 1.2]),
    ]


def test_a_climb_goes_on_where_it_stopped(tmp_path: Path) -> None:
    climbed(tmp_path, MadeUpRuns(speeds), runs=2)
    later = MadeUpRuns(speeds)
    tuning = climbed(tmp_path, later)

    assert len(later.asked) == 1
    assert [rung.decision for rung in tuning.rungs] == ["first", "kept", "rolled back"]
    assert tuning == climbed(tmp_path / "at once", MadeUpRuns(speeds))


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"runs": 2}, "--runs 2 is reached"),
        ({"budget_s": 25.0}, "20 s of 25 s are spent, and a run takes up to 10 s"),
    ],
)
def test_a_limit_ends_the_climb(limits: dict[str, Any], why: str, tmp_path: Path) -> None:
    tuning = climbed(tmp_path, MadeUpRuns(speeds), **limits)

    assert (len(tuning.rungs), tuning.why_ended) == (2, why)


def test_a_failing_run_is_a_data_point(tmp_path: Path) -> None:
    def job(settings: Settings) -> Diagnosis | EndedRun:
        return (
            EndedRun("failed", 1, "it ended with 1: ValueError: no") if value_of(settings, "bf16") else speeds(settings)
        )

    tuning = climbed(tmp_path, MadeUpRuns(job))

    assert [(rung.rule, rung.outcome, rung.decision) for rung in tuning.rungs[1:]] == [
        ("half", "failed", "rolled back"),
        ("fused", "ok", "rolled back"),
    ]
    assert tuning.rungs[1].because == "it ended with 1: ValueError: no"


def test_the_first_run_has_to_be_measured(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the job as it is cannot be measured"):
        climbed(tmp_path, MadeUpRuns(lambda settings: EndedRun("failed", 1, "it ended with 1: ValueError: no")))


LEFT = {
    "numerics": (
        PlanStep(rule="half", patch=HEAD, predicted_speedup=(1.5, 2.0), numerics=True),
        "it alters what training computes: allow it with --allow-numerics",
    ),
    "typed": (
        PlanStep(rule="half", patch=Patch(target="code", set={"x": "model.half()"}), predicted_speedup=(1.5, 2.0)),
        "no run can set it: it is yours to type",
    ),
    "no patch": (
        PlanStep(rule="half", patch=None, predicted_speedup=(1.5, 2.0)),
        "needs a change of your code or of the machine",
    ),
    "other samples": (
        planned("half", (1.5, 2.0), dataloader_drop_last=True),
        "it leaves samples out: allow it with --allow-numerics",
    ),
    "cadence": (
        planned("half", (1.5, 2.0), save_steps=500),
        "what it buys is spread over the whole run, and no short one shows it",
    ),
    "within noise": (
        planned("half", (1.0, 1.01), bf16=True),
        "even its best case is within the noise of equal runs, so that no short run would show it",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_no_run_may_make_is_left_to_the_user(name: str, tmp_path: Path) -> None:
    step, because = LEFT[name]
    runs = MadeUpRuns(lambda settings: diagnosed(100.0, [step]))
    tuning = climbed(tmp_path, runs)

    assert runs.asked == [{}]
    assert [(left.rule, left.because) for left in tuning.left] == [("half", because)]


def test_numerics_may_be_allowed(tmp_path: Path) -> None:
    step = LEFT["numerics"][0]
    tuning = climbed(
        tmp_path,
        MadeUpRuns(lambda settings: diagnosed(60.0 if settings else 100.0, [] if settings else [step], settings)),
        allow_numerics=True,
    )

    assert [rung.decision for rung in tuning.rungs] == ["first", "kept"]


def test_a_change_that_the_job_refuses_is_named_for_the_user(tmp_path: Path) -> None:
    refused = Applied(patches=(), refused=(NotApplied(key="bf16", because="no TrainingArguments was made"),))
    runs = MadeUpRuns(lambda settings: diagnosed(60.0 if settings else 100.0, [BF16], applied=refused))
    tuning = climbed(tmp_path, runs)

    assert [rung.decision for rung in tuning.rungs] == ["first", "refused"]
    assert tuning.patch == ()
    assert [(left.rule, left.because) for left in tuning.left] == [("half", "bf16: no TrainingArguments was made")]


def test_the_first_and_the_best_run_are_made_again(tmp_path: Path) -> None:
    runs = MadeUpRuns(speeds)
    tuning = climbed(tmp_path, runs, repeats=True)

    assert runs.asked[3:] == [{}, {"training_arguments": {"bf16": True}}]
    assert [(rung.decision, rung.repeats) for rung in tuning.rungs[3:]] == [("again", 0), ("held", 1)]
    assert tuning.patch == ("TrainingArguments(..., bf16=True)",)
    assert climbed(tmp_path, MadeUpRuns(speeds), repeats=True) == tuning  # once


def test_a_machine_that_got_faster_is_no_gain(tmp_path: Path) -> None:
    runs: MadeUpRuns

    def job(settings: Settings) -> Diagnosis:
        return diagnosed(100.0 if len(runs.asked) == 1 else 60.0, [BF16] if not settings else [], settings)

    runs = MadeUpRuns(job)
    tuning = climbed(tmp_path, runs, repeats=True)

    assert [rung.decision for rung in tuning.rungs] == ["first", "kept", "again", "unclear", "again", "not held"]
    assert tuning.best is tuning.rungs[0]
    assert (tuning.patch, tuning.why_ended) == ((), "the best run, made again beside the first, was not faster")


@pytest.mark.parametrize(("later_ms", "kept"), [(100.0, [1.6]), (60.0, [])])
def test_what_a_change_bought_is_in_the_ledger_once_it_has_held(
    later_ms: float, kept: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    promised: list[float] = []
    monkeypatch.setattr(
        "diagnose.commands.tune.trials.prediction_of_patch", lambda _run, _source, achieved, _judged: achieved[1]
    )
    monkeypatch.setattr("diagnose.commands.tune.trials.record", promised.append)
    runs: MadeUpRuns

    def job(settings: Settings) -> Diagnosis:
        first = 100.0 if len(runs.asked) == 1 else later_ms
        return diagnosed(62.5 if settings else first, [BF16] if not settings else [], settings)

    runs = MadeUpRuns(job)
    climbed(tmp_path, runs, repeats=True, records_predictions=True)

    assert promised == pytest.approx(kept)


@pytest.mark.parametrize(
    ("runs", "decisions"), [(3, ["first", "kept", "rolled back"]), (4, ["first", "kept", "again", "held"])]
)
def test_repeats_need_room_for_both(runs: int, decisions: list[str], tmp_path: Path) -> None:
    tuning = climbed(tmp_path, MadeUpRuns(speeds), repeats=True, runs=runs)

    assert [rung.decision for rung in tuning.rungs] == decisions


def test_lines_of_code_are_those_that_the_first_run_saw(tmp_path: Path) -> None:
    step = PlanStep(rule="python", patch=None, predicted_speedup=(1.2, 1.5))
    line = CodeLine(file="train.py", line=15, function="augment", share=0.4, of="200 samples")

    def job(settings: Settings) -> Diagnosis:
        run = diagnosed(60.0 if settings else 100.0, [step] if settings else [BF16, step], settings)
        seen = tuple(replace(finding, where=(line,)) for finding in run.findings)
        return run if settings else replace(run, findings=seen)

    assert [(left.rule, left.where) for left in climbed(tmp_path, MadeUpRuns(job)).left] == [("python", (line,))]


def test_the_columns_of_the_ladder_are_those_of_the_run(tmp_path: Path) -> None:
    facts = {"micro_batch_size": 4, "accumulation_steps": 2, "precision": "fp32", "weights_precision": "fp32"}
    first = climbed(tmp_path, MadeUpRuns(lambda settings: diagnosed(100.0, [], facts=facts))).rungs[0].measured

    assert first is not None
    assert (first.micro_batch, first.model_precision, first.mixed_precision) == (4, "fp32", "no")
    assert first.step_ms == pytest.approx(100.05)
    assert first.samples_per_s == pytest.approx(8 / 0.10005)


MEMORY_HOLDS = 20


def batches(settings: Settings, accumulation: int) -> Diagnosis | EndedRun:
    """Micro-batches of 4, memory for 20: a step takes 10 ms, and for each micro-batch 10 ms and 1 ms a sample."""
    batch = value_of(settings, "per_device_train_batch_size") or 4
    steps = value_of(settings, "gradient_accumulation_steps") or accumulation
    if batch > MEMORY_HOLDS:
        return EndedRun("oom", 1, "out of memory")
    plan = [] if settings else [PlanStep(
        rule="low-memory-use", numerics=True, predicted_speedup=(1.1, 1.2),
        patch=Patch(target="training_arguments", set={
            "per_device_train_batch_size": 8, "gradient_accumulation_steps": max(accumulation // 2, 1)}),
    )]  # fmt: skip
    facts = {"micro_batch_size": batch, "accumulation_steps": steps}
    return diagnosed(10.0 + steps * (10.0 + batch), plan, settings, facts)


def tried(runs: MadeUpRuns) -> list[tuple[int, int]]:
    """Micro-batch and accumulation of each run with a change."""
    names = "per_device_train_batch_size", "gradient_accumulation_steps"
    return [(value_of(each, names[0]), value_of(each, names[1])) for each in runs.asked[1:]]


def test_micro_batches_grow_at_the_same_global_batch_until_memory_runs_out(tmp_path: Path) -> None:
    runs = MadeUpRuns(lambda settings: batches(settings, accumulation=12))
    tuning = climbed(tmp_path, runs)

    assert tried(runs) == [(8, 6), (16, 3), (48, 1), (24, 2)]
    assert [rung.outcome for rung in tuning.rungs] == ["ok", "ok", "ok", "oom", "oom"]
    assert tuning.best is not None
    assert value_of(tuning.best.settings, "per_device_train_batch_size") == 16


def test_the_global_batch_stays_where_nothing_is_accumulated(tmp_path: Path) -> None:
    runs = MadeUpRuns(lambda settings: batches(settings, accumulation=1))
    climbed(tmp_path, runs)

    assert runs.asked == [{}]


def test_a_larger_global_batch_is_searched_where_numerics_are_allowed(tmp_path: Path) -> None:
    runs = MadeUpRuns(lambda settings: batches(settings, accumulation=1))
    tuning = climbed(tmp_path, runs, allow_numerics=True)

    assert tried(runs) == [(8, 1), (16, 1), (32, 1), (24, 1), (20, 1)]
    assert [rung.decision for rung in tuning.rungs[1:]] == ["kept", "kept", "rolled back", "rolled back", "kept"]
