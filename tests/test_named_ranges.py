"""The named ranges of a step: who opened them, what the host, the GPU and its idle time have in common with them."""

from contextlib import ExitStack

import diagnoses
import numpy as np
import pytest
from analysed import measured
from drawn import MS, range_row
from kineto import Trace
from msgspec.structs import replace

from diagnose.diagnosis import RangeRow
from diagnose.judge.range_table import RANGES_KEPT, range_rows
from diagnose.report.views.ranges import idle_line

US = 1000
SIZES = [[64, 64], [64, 64]]


def rows_of(job: Trace) -> dict[str, RangeRow]:
    return {row.name: row for row in range_rows(measured(job))}


def job(steps: int = 4) -> Trace:
    """Steps of 500 us of a range in which nothing is launched, and one kernel of 300 us launched inside another."""
    made = Trace()
    for _ in range(steps):
        with made.step():
            with made.annotation("get_batch", us=500):
                pass
            with made.annotation("compute"), made.annotation("inner"):
                made.op("aten::mm", SIZES, "gemm", 300)
            made.sync()
    return made


def launching_in(*names: str, us: float = 10) -> Trace:
    """Steps of one kernel that is launched in ranges of these names, each in the one before it and so much longer."""
    made = Trace()
    for _ in range(4):
        with made.step(), ExitStack() as open_:
            for name in names:
                open_.enter_context(made.annotation(name, us=us))
            made.op("aten::mm", SIZES, "gemm", 50)
            open_.close()
            made.sync()
    return made


def test_a_range_has_its_time_its_launches_and_the_idle_time_meanwhile() -> None:
    found = rows_of(job())

    assert set(found) == {"get_batch", "compute", "inner"}
    batch, inner = found["get_batch"], found["inner"]
    assert (batch.count, batch.by, batch.ns) == (1.0, "code", 500 * US)
    assert batch.gpu_ns == 0
    assert batch.idle_ns == pytest.approx(500 * US, rel=0.01)
    assert batch.idle_share == pytest.approx(batch.idle_ns / mean_step(), rel=0.01)
    assert inner.gpu_ns == 300 * US
    assert (inner.idle_ns or 0) < 20 * US


def mean_step() -> float:
    windows = measured(job()).timeline.windows
    return float((windows[:, 1] - windows[:, 0]).mean())


def test_a_range_in_another_of_its_name_counts_its_time_once() -> None:
    (row,) = range_rows(measured(launching_in("outer", "outer", us=150)))

    assert row.count == 2
    assert 300 * US <= row.ns < 400 * US


@pytest.mark.parametrize(
    ("name", "by"),
    [
        ("Optimizer.step#AdamW.step", "torch"),
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "torch"),
        ("Torch-Compiled Region: 0/0", "torch"),
        ("diagnose.forward", "diagnose"),
        ("Optimizers", "code"),
        ("save_checkpoint", "code"),
    ],
)
def test_who_opened_a_range(name: str, by: str) -> None:
    assert rows_of(launching_in(name))[name].by == by


def test_marks_of_steps_and_collectives_are_no_ranges() -> None:
    assert range_rows(measured(launching_in("nccl:all_reduce", "gloo:all_reduce"))) == ()


def test_names_behind_the_longest_share_a_row() -> None:
    made = Trace()
    for _ in range(3):
        with made.step():
            for number in range(RANGES_KEPT + 7):
                with made.annotation(f"part {number}", us=10 + number):
                    pass
            made.op("aten::mm", SIZES, "gemm", 50)
            made.sync()

    rows = range_rows(measured(made))

    assert len(rows) == RANGES_KEPT + 1
    assert (rows[-1].name, rows[-1].names) == ("", 7)
    assert rows[-1].ns == sum(10 + number for number in range(7)) * US
    assert [row.ns for row in rows[:-1]] == sorted((row.ns for row in rows[:-1]), reverse=True)


def test_no_row_is_longer_than_the_step_or_idles_longer_than_the_ledger_says() -> None:
    of = measured(job())
    idle = sum(of.attribution.ns().values()) / 4

    for row in range_rows(of):
        assert 0 <= row.share <= 1
        assert 0 <= (row.idle_ns or 0) <= min(row.ns, idle)
        assert np.isfinite(row.idle_share or 0)


def test_the_line_names_the_innermost_range_of_the_job() -> None:
    outer = range_row("train_step", ns=170 * MS, idle_share=0.21)
    inner = range_row("get_batch", ns=40 * MS, idle_share=0.2)
    torch = range_row("enumerate(DataLoader)#x", by="torch", ns=30 * MS, idle_share=0.2)

    said = idle_line(replace(diagnoses.data_bound(), ranges=(outer, inner, torch)))

    assert said.endswith("the device idles while the host is in get_batch")
    assert said.startswith("for 20.0 % of the ")


@pytest.mark.parametrize(
    "ranges", [(), (range_row(idle_share=0.04),), (range_row(by="torch"),), (range_row("", names=2),)]
)
def test_nothing_is_said_of_little_idle_time_and_of_ranges_that_are_not_the_jobs(ranges: tuple[RangeRow, ...]) -> None:
    assert idle_line(replace(diagnoses.data_bound(), ranges=ranges)) == ""
