"""Which change comes next: beside the plan, with numbers that hardly move, and after a part was refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from made_up_jobs import MadeUpRuns, climbed, diagnosed, planned
from msgspec.structs import replace

from diagnose.commands.tune.answer import Settings
from diagnose.commands.tune.settings import hardly_differs, patches_of, value_of
from diagnose.diagnosis import Applied, Diagnosis, NotApplied, PlanStep

STATIC = planned("repeated-graph-search", (1.3, 1.5), "ddp", static_graph=True)
NO_SEARCH = planned("unused-parameter-search", (1.2, 1.4), "ddp", find_unused_parameters=False)


def excluding(planned_one: PlanStep, others: Sequence[PlanStep], step_ms: float, settings: Settings) -> Diagnosis:
    """A run whose plan holds one change and whose findings hold others, too, which that one excludes."""
    findings = diagnosed(step_ms, [planned_one, *others]).findings
    return replace(diagnosed(step_ms, [planned_one], settings), findings=findings)


@pytest.mark.parametrize(
    ("planned_one_helps", "decisions"), [(False, ["rolled back", "kept"]), (True, ["kept", "rolled back"])]
)
def test_what_the_plan_excludes_is_tried_after_the_planned_change(
    planned_one_helps: bool, decisions: list[str], tmp_path: Path
) -> None:
    helps = "static_graph" if planned_one_helps else "find_unused_parameters"

    def job(settings: Settings) -> Diagnosis:
        return excluding(STATIC, [NO_SEARCH], 100.0 if value_of(settings, helps) is None else 70.0, settings)

    tuning = climbed(tmp_path, MadeUpRuns(job))

    assert [rung.rule for rung in tuning.rungs[1:]] == ["repeated-graph-search", "unused-parameter-search"]
    assert [rung.decision for rung in tuning.rungs[1:]] == decisions


@pytest.mark.parametrize(("noise", "tried"), [(0.2, True), (0.5, False)])
def test_a_gain_that_the_mean_of_the_steps_shows_is_tried(noise: float, tried: bool, tmp_path: Path) -> None:
    """1 - 1/1.15 is 13 % of the step: steps that lie 20 % apart have a mean known to 7 %, where eight were timed."""
    small = planned("unused-parameter-search", (1.0, 1.15), "ddp", static_graph=True)
    tuning = climbed(
        tmp_path, MadeUpRuns(lambda settings: diagnosed(100.0, [small], settings, {"step_noise_share": noise}))
    )

    assert [rung.rule for rung in tuning.rungs[1:]] == (["unused-parameter-search"] if tried else [])


def test_what_changes_numerics_is_no_more_allowed_beside_the_plan(tmp_path: Path) -> None:
    half = planned("half", (1.5, 2.0), bf16=True)

    def job(settings: Settings) -> Diagnosis:
        run = excluding(STATIC, [half], 100.0, settings)
        marked = [replace(each, numerics=each.rule == "half") for each in run.findings]
        return replace(run, findings=tuple(marked))

    assert [rung.rule for rung in climbed(tmp_path, MadeUpRuns(job)).rungs] == ["", "repeated-graph-search"]


def test_a_number_that_moves_a_little_with_each_plan_is_not_tried_again(tmp_path: Path) -> None:
    runs: MadeUpRuns

    def job(settings: Settings) -> Diagnosis:
        more = planned("data-wait", (1.1, 1.2), "dataloader", num_workers=3 + len(runs.asked), persistent_workers=True)
        return diagnosed(50.0 if settings else 100.0, [more], settings)

    runs = MadeUpRuns(job)
    climbed(tmp_path, runs)

    assert [value_of(asked, "num_workers") for asked in runs.asked] == [None, 4]


@pytest.mark.parametrize(
    ("value", "known", "alike"),
    [
        (4, 5, True),
        (5, 4, True),
        (4, 6, False),
        (True, True, True),
        (True, False, False),
        (0, 1, False),
        ("a", "a", True),
    ],
)
def test_numbers_within_a_quarter_hardly_differ(value: object, known: object, alike: bool) -> None:
    assert hardly_differs({"dataloader": {"key": value}}, {"dataloader": {"key": known}}) == alike


def test_a_refused_key_is_not_asked_for_again_and_not_part_of_the_patch(tmp_path: Path) -> None:
    workers = planned("data-wait", (1.1, 2.0), "dataloader", num_workers=4, persistent_workers=True)
    fused = planned("fused", (1.1, 1.4), optim="adamw_torch_fused")

    def job(settings: Settings) -> Diagnosis:
        asked = patches_of(
            {"dataloader": {"num_workers": 4}, **{k: v for k, v in settings.items() if k != "dataloader"}}
        )
        refused = tuple(
            NotApplied(key="persistent_workers", because="the script sets it itself")
            for _ in [1] if value_of(settings, "persistent_workers")
        )  # fmt: skip
        applied = Applied(patches=asked, refused=refused) if settings else None
        step_ms = 100.0 / (1.5 if settings else 1.0) / (1.2 if value_of(settings, "optim") else 1.0)
        return diagnosed(step_ms, [workers] if not settings else [fused], settings, applied=applied)

    runs = MadeUpRuns(job)
    tuning = climbed(tmp_path, runs)

    assert runs.asked[1:] == [
        {"dataloader": {"num_workers": 4, "persistent_workers": True}},
        {"dataloader": {"num_workers": 4}, "training_arguments": {"optim": "adamw_torch_fused"}},
    ]
    assert [rung.decision for rung in tuning.rungs[1:]] == ["kept", "kept"]
    assert tuning.patch == (
        "DataLoader(..., num_workers=4)",
        'TrainingArguments(..., optim="adamw_torch_fused")',
    )
