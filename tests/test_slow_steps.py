"""Slow steps of the window and of the run: their numbers, their times, and what grew in them."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace, collective

from diagnose import analyze
from diagnose.analysis import Options
from diagnose.analysis import analyze as diagnosed
from diagnose.diagnosis import SlowStep

MS = 1_000_000


def report(
    tmp_path: Path, slow: tuple[int, ...] = (), count: int = 8, every: dict[str, Any] | None = None, **steps: Any
) -> tuple[SlowStep, ...]:
    """Steps 10, 11, ... that wait a millisecond for data, the slow ones four; `steps` are those of the record, `every`
    is its `every_step`.
    """
    job = Trace()
    for number in range(10, 10 + count):
        with job.step():
            job.loader(ms=4 if number in slow else 1)
            job.launch(GEMM, 1000)
            job.sync()
    job.write(tmp_path / "rank0.json")
    if steps:
        (tmp_path / "capture-rank0.json").write_text(json.dumps({"steps": steps, "every_step": every}))
    return analyze(tmp_path).diagnosis.slow_steps


def test_a_slow_step_of_the_window_has_its_number_its_time_and_its_cause(tmp_path: Path) -> None:
    (found,) = report(tmp_path, slow=(14,))

    assert (found.step, found.rank, found.recorded, found.cause) == (14, 0, True, "data-wait")
    assert found.cause_ns == pytest.approx(3 * MS, rel=0.02)
    assert found.ns == pytest.approx(5 * MS, rel=0.02)
    assert found.factor == pytest.approx(2.5, rel=0.02)


@pytest.mark.parametrize(("slow", "count"), [((), 8), ((11, 13, 15), 7), ((12,), 3)])
def test_steps_that_are_even_half_of_them_slow_or_too_few_are_not_named(
    slow: tuple[int, ...], count: int, tmp_path: Path
) -> None:
    assert report(tmp_path, slow, count) == ()


def test_a_slow_step_outside_the_window_has_the_number_of_the_job(tmp_path: Path) -> None:
    """A job that goes on from step 1000: its first step warms up, and step 1007 is slow."""
    waiting = [90 * MS, *[10 * MS] * 5, 31 * MS, *[10 * MS] * 5]
    timed = {"waiting_ns": waiting, "warmup_ns": [9, 9], "active_ns": [9] * 4, "first_active_step": 1015}

    (found,) = report(tmp_path, clock="host", **timed)

    assert (found.step, found.ns, found.recorded, found.cause) == (1007, 31 * MS, False, "")
    assert found.factor == pytest.approx(3.1)


def test_the_hosts_times_of_single_steps_say_nothing_where_a_device_runs_behind(tmp_path: Path) -> None:
    waiting = [*[10 * MS] * 9, 31 * MS, *[10 * MS] * 5]

    assert report(tmp_path, clock="device", waiting_ns=waiting, active_ns=[9] * 4, first_active_step=30) == ()


@pytest.mark.parametrize(
    ("waiting_ms", "slow"),
    [
        ([10, *[10] * 8, 12.5, 10], [12.5]),
        ([10, *[10] * 8, 11.8, 10], []),
        ([10, *[9, 11] * 5, 15.0, 10], [15.0]),
        ([10, *[9, 11] * 5, 14.0, 10], []),
        ([10, *[10] * 5, 31, 10], [31]),
        ([10, *[10] * 4, 31, 10], []),
        ([30, 11.5, 31, *[10] * 7], []),
        ([30, 10.5, 31, *[10] * 7], [31]),
    ],
)
def test_both_sides_of_each_threshold_in_numbers(waiting_ms: list[float], slow: list[float], tmp_path: Path) -> None:
    """A fifth above the median, three deviations above it, eight steps, and a tenth above it for the first of them."""
    waiting = [round(each * MS) for each in waiting_ms]
    found = report(tmp_path, clock="host", waiting_ns=waiting, warmup_ns=[9], active_ns=[9] * 4, first_active_step=50)

    assert [step.ns / MS for step in found] == slow


@pytest.mark.parametrize(("count", "slow"), [(4, [11]), (3, [])])
def test_three_steps_of_the_window_are_enough_and_two_are_not(count: int, slow: list[int], tmp_path: Path) -> None:
    """One step of a window is not counted."""
    assert [step.step for step in report(tmp_path, slow=(11,), count=count)] == slow


def test_what_grows_on_a_rank_that_waits_for_another_is_no_transfer(tmp_path: Path) -> None:
    """Rank 0 waits 6 ms for data in one step, and rank 1 for rank 0."""
    jobs = [Trace(rank=rank, world=2) for rank in range(2)]
    for number in range(10, 18):
        with ExitStack() as steps:
            for job in jobs:
                steps.enter_context(job.step())
                job.loader(ms=6 if number == 14 and job.rank == 0 else 0.1)
                job.launch(GEMM, 3000)
            collective(jobs, "allreduce", 1 << 22, 200, wait=True)
            for job in jobs:
                job.sync()
    for job in jobs:
        job.write(tmp_path / f"rank{job.rank}.json")

    (found,) = diagnosed(tmp_path, options=Options(rank=1)).slow_steps

    assert (found.step, found.cause) == (14, "late-rank-data")


def every_step(slow: dict[int, tuple[float, str, float]], profiled: tuple[int, ...] = ()) -> dict[str, Any]:
    """Steps 20 to 49 of 10 ms; a slow one has its milliseconds, and a range with its own in it."""
    number = list(range(20, 50))
    names = {name for _, name, _ in slow.values()} - {"gc"}
    return {
        "number": number,
        "ns": [round(slow[step][0] * MS) if step in slow else 10 * MS for step in number],
        "profiled": [step in profiled for step in number],
        "gc_ns": [round(slow[step][2] * MS) if step in slow and slow[step][1] == "gc" else 0 for step in number],
        "ranges_ns": {
            f"diagnose.{name}": [
                round(slow[step][2] * MS) if step in slow and slow[step][1] == name else 0 for step in number
            ]
            for name in names
        },
    }


@pytest.mark.parametrize(
    ("grew", "cause", "what"),
    [
        ("data_wait.first", "data-wait", "an epoch starts here"),
        ("data_wait", "data-wait", ""),
        ("eval", "logging", "an evaluation"),
        ("save", "logging", "a checkpoint"),
        ("compile", "compile", ""),
        ("gc", "gc", ""),
    ],
)
def test_a_step_outside_the_window_is_explained_by_the_range_that_grew(
    grew: str, cause: str, what: str, tmp_path: Path
) -> None:
    (found,) = report(tmp_path, every=every_step({33: (90, grew, 78)}), clock="host", active_ns=[9] * 4)

    assert (found.step, found.recorded, found.cause, found.cause_ns) == (33, False, cause, 78 * MS)
    assert found.what.startswith(what)
    assert bool(found.what) is bool(what)


def test_a_range_that_is_a_small_part_of_what_a_step_takes_more_does_not_explain_it(tmp_path: Path) -> None:
    (found,) = report(tmp_path, every=every_step({33: (90, "data_wait", 20)}), clock="host", active_ns=[9] * 4)

    assert (found.step, found.cause) == (33, "")


@pytest.mark.parametrize(("clock", "profiled"), [("device", ()), ("host", (33, 40))])
def test_where_the_hosts_time_is_no_measure_a_step_counts_by_its_ranges_alone(
    clock: str, profiled: tuple[int, ...], tmp_path: Path
) -> None:
    """Steps of a host that runs ahead of its device, and those of the profiler."""
    every = every_step({33: (90, "eval", 78), 40: (90, "gc", 0)}, profiled)

    assert [step.step for step in report(tmp_path, every=every, clock=clock, active_ns=[9] * 4)] == [33]
