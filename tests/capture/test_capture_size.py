"""What of a window is recorded, by what one step of it took: shapes go first, then steps, then ranks, then all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from diagnose.probes.config import Config
from diagnose.probes.limits import allowance as of_allowance
from diagnose.probes.limits.allowance import Allowance
from diagnose.probes.limits.capture_size import CaptureChoice, CaptureLimits, TrialStep, fitted

MB, GB = 1_000_000, 1_000_000_000
TRIAL = TrialStep(text_bytes=20 * MB, stop_s=0.2, export_s=0.1)  # of four steps with shapes: 120 MB, 780 MB, 3.4 s
ROOM = CaptureLimits(1 * GB, memory_bytes=100 * GB, disk_bytes=100 * GB, stall_s=60.0)


def test_text_memory_and_time_grow_with_the_steps_and_shapes_add_to_them() -> None:
    plain, full = TRIAL.size(4, shapes=False), TRIAL.size(4, shapes=True)

    assert (plain.text_bytes, plain.memory_bytes) == (80 * MB, 360 * MB)
    assert plain.stall_s == pytest.approx(4 * (0.2 + 0.1))
    assert (full.text_bytes, full.memory_bytes) == (120 * MB, 780 * MB)
    assert full.stall_s == pytest.approx(4 * (3.5 * 0.2 + 1.5 * 0.1))


@pytest.mark.parametrize(
    ("limits", "kept"),
    [
        ({}, (4, True)),
        ({"budget_bytes": 120 * MB}, (4, True)),
        ({"budget_bytes": 119 * MB}, (4, False)),
        ({"budget_bytes": 79 * MB}, (3, False)),
        ({"budget_bytes": 20 * MB}, (1, False)),
        ({"budget_bytes": 19 * MB}, (0, False)),
        ({"memory_bytes": 779 * MB}, (4, False)),
        ({"memory_bytes": 89 * MB}, (0, False)),
        ({"disk_bytes": 41 * MB}, (2, False)),
        ({"stall_s": 3.3}, (4, False)),
        ({"stall_s": 0.2}, (0, False)),
    ],
    ids=str,
)
def test_the_fullest_capture_within_every_limit_is_kept(limits: dict[str, float], kept: tuple[int, bool]) -> None:
    choice = fitted(TRIAL, 4, replace(ROOM, **limits))  # type: ignore[arg-type]

    assert (choice.steps, choice.shapes) == kept
    assert bool(choice.because) == (kept != (4, True))


@pytest.mark.parametrize(
    ("budget_bytes", "kept"),
    [(210 * MB, (7, True)), (209 * MB, (6, True)), (120 * MB, (4, True)), (119 * MB, (5, False))],
)
def test_steps_that_nobody_asked_for_are_dropped_before_shapes(budget_bytes: int, kept: tuple[int, bool]) -> None:
    choice = fitted(TRIAL, 7, replace(ROOM, budget_bytes=budget_bytes), enough=4)

    assert (choice.steps, choice.shapes) == kept
    assert bool(choice.because) == (kept != (7, True))


def test_ranks_of_a_host_share_its_memory_and_one_of_them_may_record_alone() -> None:
    crowded = replace(ROOM, memory_bytes=200 * MB, ranks=8)

    first, others = fitted(TRIAL, 4, crowded, alone_if_need_be=True), fitted(TRIAL, 4, crowded)

    assert (first.steps, first.shapes) == (1, False)
    assert others.steps == 0
    assert others.because == (
        "one step without shapes takes 720 MB of memory for 8 ranks of this host,"
        " and a quarter of what is free is 200 MB"
    )


@pytest.mark.parametrize(
    ("limits", "because"),
    [
        ({"budget_bytes": 100 * MB}, "4 steps with shapes take 120 MB of text, and the budget is 100 MB"),
        (
            {"stall_s": 0.25},
            "one step without shapes takes 0.3 s of stall, and a tenth of the collectives' timeout is 0.2 s",
        ),
        ({"disk_bytes": 90 * MB}, "4 steps with shapes take 120 MB of disk, and half of what is free is 90 MB"),
    ],
    ids=str,
)
def test_the_limit_that_cuts_is_named(limits: dict[str, float], because: str) -> None:
    assert fitted(TRIAL, 4, replace(ROOM, **limits)).because == because  # type: ignore[arg-type]


def test_what_is_known_of_a_choice_goes_into_the_record() -> None:
    assert CaptureChoice(0, False, None, "--ranks 0").facts(4) == {
        "asked_steps": 4,
        "steps": 0,
        "shapes": False,
        "cut_because": "--ranks 0",
        "text_bytes": None,
        "memory_bytes": None,
        "stall_s": None,
    }


@pytest.mark.parametrize(("nodes", "recorded"), [(8_000, True), (9_000, False)])
def test_a_step_of_too_many_operators_is_not_even_tried(
    nodes: int, recorded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 3,000 bytes each on a CPU, counted over two steps before the window; the trial is a step of the same size."""
    pytest.importorskip("torch")
    counted = iter((1000, 1000 + 2 * nodes))
    monkeypatch.setattr(of_allowance, "_nodes", lambda: next(counted))
    allowance = Allowance(Config("out", budget_bytes=25 * MB))
    allowance.look(5)
    allowance.begins(4)

    assert allowance.refuses(7) is not recorded
    told = "" if recorded else "by its operators a step takes about 27 MB of text, and the budget is 25 MB"
    assert allowance.left_out == told


def test_a_window_after_one_that_was_left_out_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_allowance, "rank_and_world_size", lambda: (1, 4))
    allowance = Allowance(Config("out", ranks="0"))
    allowance.begins(4)
    assert allowance.refuses(7)
    monkeypatch.setattr(of_allowance, "rank_and_world_size", lambda: (0, 4))
    allowance.begins(4)

    assert not allowance.refuses(20)
    assert (allowance.left_out, allowance.facts()["steps"]) == ("", 4)


def test_a_rank_decides_by_its_trial_and_its_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        of_allowance, "limits", lambda budget, folder, ranks, timeout_s: CaptureLimits(budget, ranks=ranks)
    )
    allowance = Allowance(Config("out", budget_bytes=50 * MB))
    allowance.begins(4)

    choice = allowance.decide(TRIAL, tmp_path)

    assert (choice.steps, choice.shapes) == (2, False)
    assert allowance.facts() == {
        "budget_bytes": 50 * MB,
        "ranks": None,
        "recorded_ranks": 1,
        "asked_steps": 4,
        "steps": 2,
        "shapes": False,
        "cut_because": "4 steps with shapes take 120 MB of text, and the budget is 50 MB",
        "text_bytes": 40 * MB,
        "memory_bytes": 180 * MB,
        "stall_s": pytest.approx(0.6),
    }
