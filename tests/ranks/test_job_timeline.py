"""Several ranks in one step: who is drawn, on which clock, what fills a row, and where the ranks meet."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from analysed import GEMM, MS
from kineto import Trace, collective
from report.pages import Read, written
from simulator import Clocks, Fault, Job, simulate

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis, JobTimeline
from diagnose.judge.job_timeline import BUDGET

REAL = os.environ.get("DIAGNOSE_REAL_TRACES")
LATE = 5


def two_ranks(folder: Path, pauses_us: Sequence[int], reduces: bool = True, offset: int = 0) -> Diagnosis:
    """In each step rank 1 pauses so long before it computes; the numbers of its steps are higher by the offset."""
    ranks = [Trace(rank=r, world=2, first_step=10 + offset * r) for r in range(2)]
    for pause in pauses_us:
        with ExitStack() as opened:
            for trace in ranks:
                opened.enter_context(trace.step())
                trace.cpu_op("aten::index", pause if trace.rank else 10)
                trace.launch(GEMM, 500)
            if reduces:
                collective(ranks, "allreduce", 1 << 22, 50, wait=True)
            for trace in ranks:
                trace.sync(stream=None)
    for trace in ranks:
        trace.write(folder / f"rank{trace.rank}.json")
    return analyze(folder)


@cache
def simulated(ranks: int = 8, late: tuple[int, ...] = (LATE,), **of: object) -> Diagnosis:
    """A job of hosts whose clocks are 5 ms apart and drift, of which some ranks are late for their data."""
    job = Job(ranks=ranks, ranks_per_node=4, steps=5, clocks=Clocks(5, 20), faults=(Fault("data", ranks=late),), **of)
    with TemporaryDirectory() as folder:
        simulate(job).write(Path(folder))
        return analyze(folder)


def drawn(of: Diagnosis) -> JobTimeline:
    assert of.job_timeline is not None
    return of.job_timeline


@pytest.mark.long
def test_the_clocks_of_the_rows_are_aligned() -> None:
    job = drawn(simulated())

    assert job.aligned
    for step in job.steps:
        residuals = [row.residual_ns for row in step.rows]
        assert max(residuals) < 5_000  # of clocks that are milliseconds apart
        for meeting in step.meetings:
            assert max(meeting.end_ns) - min(meeting.end_ns) < 20_000


@pytest.mark.long
def test_the_late_rank_arrives_last_while_the_others_wait() -> None:
    job = drawn(simulated())

    assert (job.late, job.late_is_named) == ((LATE,), True)
    assert job.typical not in (None, LATE)
    step = job.steps[0]
    first, *_ = step.meetings
    assert first.last == LATE
    assert first.ranks[first.start_ns.index(max(first.start_ns))] == LATE
    assert max(first.start_ns) - sorted(first.start_ns)[-2] > 3 * MS
    waits = {row.rank: row.waiting_ns for row in step.rows}
    assert min(waits, key=lambda rank: waits[rank]) == LATE


@pytest.mark.long
def test_every_late_rank_is_named() -> None:
    job = drawn(simulated(late=(2, 5)))

    assert set(job.late) == {2, 5}
    assert job.typical not in (None, 2, 5)


@pytest.mark.long
def test_a_row_holds_the_rank_s_step_to_the_nanosecond() -> None:
    for step in drawn(simulated()).steps:
        for row in step.rows:
            own = row.causes
            assert sum(row.by_cause.values()) == row.length_ns == sum(own.length_ns)
            assert row.start_ns + row.length_ns <= step.length_ns
            assert row.waiting_ns == sum(ns for cause, ns in row.by_cause.items() if cause.startswith("late-rank-"))
            assert {lane.kind for lane in row.lanes} == {"stream", "thread"}
        assert sum(len(row.causes.start_ns) for row in step.rows) <= BUDGET["rank"]
        assert [row.rank for row in step.rows] == list(range(8))


@pytest.mark.long
def test_of_many_ranks_the_late_one_and_some_others_are_drawn_and_the_waiting_of_all_is_known() -> None:
    found = simulated(24, layers=2)
    job, step = drawn(found), drawn(found).steps[0]

    rows = [row.rank for row in step.rows]
    assert (len(rows), job.ranks_left_out, job.late) == (8, 16, (LATE,))
    assert LATE in rows
    assert len(step.waiting_shares) == len(found.ranks) == 24
    assert step.waiting_shares.index(min(share for share in step.waiting_shares if share is not None)) == LATE
    for row in step.rows:
        assert row.waiting_ns is not None
        assert step.waiting_shares[row.rank] == pytest.approx(row.waiting_ns / row.length_ns)


def test_the_median_and_the_slowest_step_are_drawn(tmp_path: Path) -> None:
    job = drawn(two_ranks(tmp_path, [100, 300, 9000, 200, 100]))

    assert [(step.step, step.chosen) for step in job.steps] == [
        (13, "median"), (12, "slowest"), (11, "before a stall"),
    ]  # fmt: skip
    assert job.steps[0].length_ns < job.steps[1].length_ns
    assert [(meeting.kind, meeting.ranks, meeting.last) for meeting in job.steps[1].meetings] == [
        ("allreduce", (0, 1), 1)
    ]


def test_the_step_before_a_stall_is_drawn_if_it_counts(tmp_path: Path) -> None:
    found = two_ranks(tmp_path, [100, 300, 200, 150, 120, 9000, 100])

    assert [(step.step, step.chosen) for step in drawn(found).steps][1:] == [(15, "slowest"), (14, "before a stall")]
    assert "Step 14, the one before the slow step 15:" in Read(written(found)).shown


def test_a_stall_in_the_first_counted_step_has_no_step_before_it(tmp_path: Path) -> None:
    job = drawn(two_ranks(tmp_path, [100, 9000, 200, 150, 120, 100]))

    assert [step.chosen for step in job.steps] == ["median", "slowest"]


def test_ranks_that_meet_nowhere_each_begin_at_0_and_their_waits_are_unknown(tmp_path: Path) -> None:
    job = drawn(two_ranks(tmp_path, [100, 100, 100], reduces=False))

    assert (job.aligned, job.late, job.typical) == (False, (), None)
    for step in job.steps:
        assert [row.start_ns for row in step.rows] == [0, 0]
        assert [row.waiting_ns for row in step.rows] == [None, None]
        assert step.meetings == ()
        assert step.waiting_shares == (None, None)


def test_one_rank_and_ranks_without_a_common_step_have_no_drawing(tmp_path: Path) -> None:
    apart = two_ranks(tmp_path, [100, 100, 100], offset=100)

    assert apart.job_timeline is None
    assert analyze(tmp_path, options=Options(rank=0)).job_timeline is None
    assert analyze(tmp_path / "rank0.json").job_timeline is None


@pytest.mark.long
@pytest.mark.skipif(not REAL, reason="set DIAGNOSE_REAL_TRACES to the folder with real traces")
def test_seven_ranks_of_the_public_job_wait_until_rank_7_arrives() -> None:
    job = drawn(analyze(Path(REAL or "") / "dlrm-8xv100"))
    (step,) = job.steps
    first = min(step.meetings, key=lambda meeting: max(meeting.start_ns))

    arrivals = dict(zip(first.ranks, first.start_ns, strict=True))
    assert max(arrivals, key=lambda rank: arrivals[rank]) == first.last == 7
    assert job.late == (7,)
    residual = max(row.residual_ns or 0 for row in step.rows)
    assert max(first.end_ns) - min(first.end_ns) <= 2 * residual
