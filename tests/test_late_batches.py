"""Batches that come late at no regular distance: their share of the run, the verdict over it, and how workers help."""

from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from lines.lines_jobs import recorded

from diagnose.diagnosis import Diagnosis
from diagnose.probes.protocol import DATA_WAIT_RANGE, FIRST_BATCH_RANGE
from diagnose.report.views.why import period_sentence
from diagnose.series.late_batches import late_batches
from diagnose.series.phase import SlowPhase, slow_phase
from diagnose.trace.light_steps import every_step
from diagnose.trace.record import decoded

RULE = "late-batches"
MS = 1_000_000
LATE = (12, 19, 40, 42, 71, 77, 98)  # of the steps 2 to 101
WINDOW = (7, 8, 9, 10)


def record(late_ms: float = 500, late: tuple[int, ...] = LATE, **more: Any) -> dict[str, Any]:
    """A hundred steps of 10 ms, one of them in the wait for the batch; in the late ones the wait is longer."""
    number = list(range(2, 102))
    waits = [(late_ms if step in late else 1) * MS for step in number]
    ranges = {DATA_WAIT_RANGE: waits, FIRST_BATCH_RANGE: [0] * len(number)}
    every = {
        "number": number,
        "ns": [9 * MS + wait for wait in waits],
        "profiled": [step in WINDOW for step in number],
        "gc_ns": [0] * len(number),
        "ranges_ns": ranges,
    }
    steps = {"clock": "host", "first_active_step": 7, "active_ns": [10 * MS] * 4}
    stack = {"frames": [["train.py", 5, "main"]], "doing": "step", "calls": None, "below": []}
    sampled = {"interval_ms": 10.0, "wall_ms": 910.0, "cost_ms": 1.0, "samples": 40, "in_user_code": 40}
    stacks = [{**stack, "samples": 40, "by_step": [[step, 1] for step in number[20:60]]}]
    times = {"steps": 91, "first_step": 11, "left_out": 0, "step_ns": every["ns"][9:], "stacks": stacks}
    return {"world_size": 1, "steps": steps, "every_step": every, "stack_samples": {**sampled, **times}, **more}


def diagnosed(folder: Path, workers: int, **changes: Any) -> Diagnosis:
    """The same steps in a window, none of which waits long."""
    job = Trace(gpu=None)
    job.next_step = WINDOW[0]
    for _ in WINDOW:
        with job.step():
            job.cpu_op("aten::mm", 9000)
            job.host(1000)
    loading = {"workers": workers}
    loader = {"num_workers": workers, "prefetch_factor": 2 if workers else None}
    return recorded(folder, [job], record(loading=loading, dataloader=loader, **changes))


def test_the_share_is_of_the_run_and_the_distance_a_mean() -> None:
    phase = slow_phase(decoded(record()))

    assert isinstance(phase, SlowPhase)
    assert phase.irregular == frozenset(LATE)
    assert phase.every == round(96 / 7)
    assert phase.more_ns == 499 * MS
    assert phase.run_share == pytest.approx(499 / (499 + phase.every * 10))
    assert [step for step in range(1, 50) if phase.holds(step)] == [12, 19, 40, 42]


@pytest.mark.parametrize(
    ("late_ms", "late"),
    [(500, (12, 19)), (500, (2, 3, 4)), (9, LATE), (500, tuple(range(8, 102, 3)))],
    ids=["two are accidents", "workers start", "less than a step", "loading is short of workers"],
)
def test_what_is_no_late_batch(late_ms: float, late: tuple[int, ...]) -> None:
    assert late_batches(every_step(decoded(record(late_ms, late)))) is None


def test_workers_that_end_together_make_no_late_batch() -> None:
    every = every_step(decoded(record(late=tuple(range(12, 102, 9)))))

    assert late_batches(every, workers=4) is not None
    assert late_batches(every, workers=10) is None


def test_late_batches_are_most_of_the_waiting() -> None:
    short = record(late_ms=60)
    waits = short["every_step"]["ranges_ns"][DATA_WAIT_RANGE]
    short["every_step"]["ranges_ns"][DATA_WAIT_RANGE] = [max(wait, 8 * MS) for wait in waits]

    assert late_batches(every_step(decoded(record(late_ms=60)))) is not None
    assert late_batches(every_step(decoded(short))) is None


def test_the_first_batch_of_a_pass_is_none() -> None:
    begins = record()
    begins["every_step"]["ranges_ns"][FIRST_BATCH_RANGE] = [
        MS if step in LATE else 0 for step in begins["every_step"]["number"]
    ]

    assert late_batches(every_step(decoded(begins))) is None


def test_late_batches_at_a_regular_distance_are_the_regular_phase() -> None:
    phase = slow_phase(decoded(record(late=tuple(range(12, 102, 9)))))

    assert isinstance(phase, SlowPhase)
    assert (phase.irregular, phase.every) == (frozenset(), 9)


def test_the_run_waits_for_data_though_no_step_of_the_window_does(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, workers=2)

    assert told.verdict.class_ == "data-bound"
    assert told.period is not None
    assert not told.period.regular
    assert period_sentence(told.period) == "One step in 14 takes 499.0 ms more, 78 % of the time: a late batch."
    assert told.next.rule == RULE
    assert told.next.patch is not None
    assert told.next.patch.set == {"num_workers": 4, "prefetch_factor": 4, "persistent_workers": True}


def test_without_workers_some_are_advised(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, workers=0)

    assert told.next.rule == RULE
    assert told.next.do.startswith("Load in 4 worker processes")


def test_the_gain_lies_between_late_batches_one_by_one_and_all_at_once(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, workers=2)
    workers, share = float(told.fact("workers_past_late_batches")), float(told.fact("slow_phase_run_share"))  # type: ignore[arg-type]
    loading = 499 + 4 * 10  # four batches lie ready
    worst, best = (loading - 4 * workers * 10) / 499, max(loading / workers - 14 * 10, 0) / 499

    assert told.fact("most_late_wait_left_share") == pytest.approx(worst, abs=0.01)
    assert told.fact("least_late_wait_left_share") == pytest.approx(best, abs=0.01)
    cases = (1 / (1 - share * (1 - worst)), 1 / (1 - share))
    assert told.next.predicted_speedup == pytest.approx(cases, rel=0.1)


def test_workers_share_no_factor_with_a_regular_distance(tmp_path: Path) -> None:
    told = diagnosed(tmp_path, workers=2, late_ms=900, late=tuple(range(12, 102, 8)))

    assert told.fact("slow_phase_every_steps") == 8
    assert told.fact("workers_past_late_batches") == 3


def test_mfu_and_its_waterfall_are_of_the_run_as_the_breakdown_is(tmp_path: Path) -> None:
    job = Trace()
    job.next_step = WINDOW[0]
    for _ in WINDOW:
        with job.step():
            job.op("aten::mm", [[4096, 4096], [4096, 4096]], "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", 300)
            job.host(9_700)
    usual = recorded(tmp_path / "usual", [job], record(late=()))
    late = recorded(tmp_path / "late", [job], record())

    assert usual.mfu.value is not None
    assert late.mfu.value == pytest.approx((1 - late.period.share) * usual.mfu.value)  # type: ignore[union-attr]
    assert sum(part.points for part in late.waterfall) == pytest.approx(100)
    assert next(p.points for p in late.waterfall if p.part == "model-flops") == pytest.approx(100 * late.mfu.value)
    assert late.verdict.class_ == "data-bound"
