"""Which rank is late over a run, where a log has what each rank takes for its own work."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from text_logs import megatron, step_times

from diagnose.commands.series.judge import judged
from diagnose.series import read_series
from diagnose.series.rank_times import RankTimes

Times = Mapping[str, Sequence[float]]  # milliseconds of each rank


def told(folder: Path, lines: Sequence[str]) -> list[RankTimes]:
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    return list(judged(read_series(folder / "train.log")).rank_times)


def drawn(rank: int, late: float = 1.3, ranks: int = 4) -> list[float]:
    noise = np.random.default_rng(rank)
    return [(100 + noise.normal()) * (late if rank == ranks - 2 else 1) for _ in range(12)]


def all_ranks(times: Times) -> list[str]:
    """The block of `--timing-log-option all`."""
    lines = ["times across ranks (ms):"]
    for name, each in times.items():
        lines += [f"  {name}:", *(f"     rank {rank:2d}: {took:.2f}" for rank, took in enumerate(each))]
    return lines


def extremes(times: Times) -> list[str]:
    """The block of `--timing-log-option minmax`."""
    lines = ["(min, max) time across ranks (ms):"]
    return lines + [f"    {name + ' ':.<48}: ({min(each):.2f}, {max(each):.2f})" for name, each in times.items()]


def logged(
    tmp_path: Path, form: Callable[[Times], list[str]], times: Sequence[Times], before: str = ""
) -> list[RankTimes]:
    lines = []
    for line, each in zip(megatron(step_times(len(times), stall_s=0)), times, strict=False):
        lines += [line, *form(each)]
    return told(tmp_path, [before + line for line in lines])


def run(late: float = 1.3, more: Times | None = None) -> list[Times]:
    ranks = [drawn(rank, late) for rank in range(4)]
    return [
        {"forward-backward": [900.0] * 4, "forward-compute": each, **(more or {})} for each in zip(*ranks, strict=True)
    ]


@pytest.mark.parametrize("before", ["", "[default7]:", "7: "], ids=["alone", "torchrun", "srun"])
def test_megatrons_timers_of_all_ranks_name_the_late_one(tmp_path: Path, before: str) -> None:
    (found,) = logged(tmp_path, all_ranks, run(), before)

    assert (found.what, found.late, found.ranks, found.logs) == ("forward-compute", (2,), 4, 12)
    assert found.late_s == pytest.approx(0.130, rel=0.02)
    assert found.usual_s == pytest.approx(0.100, rel=0.02)
    assert found.says.startswith("rank 2 takes 129.9 ms for forward-compute, the others 100.1 ms: 29.8 % longer")
    assert found.says.endswith("slowest in 12 of 12 logs")


def test_a_whole_late_stage_is_named(tmp_path: Path) -> None:
    ranks = [[each + 30 * (rank in (2, 3)) for each in drawn(rank, 1.0)] for rank in range(4)]
    (found,) = logged(tmp_path, all_ranks, [{"backward-compute": each} for each in zip(*ranks, strict=True)])

    assert found.late == (2, 3)
    assert found.says.startswith("ranks 2, 3 take 129.8 ms for backward-compute")


def test_equal_ranks_have_a_spread_and_nobody_late(tmp_path: Path) -> None:
    (found,) = logged(tmp_path, all_ranks, run(late=1.0))

    assert found.late == ()
    assert found.spread_share < 0.05
    assert found.says.startswith("forward-compute: the slowest rank takes ")


def test_the_least_and_the_most_tell_the_spread_and_how_to_name_the_rank(tmp_path: Path) -> None:
    (found,) = logged(tmp_path, extremes, run())

    assert (found.late, found.ranks) == ((), None)
    assert found.spread_share == pytest.approx(0.3, abs=0.05)
    assert found.says.endswith("; --timing-log-option all says which rank it is")


def test_two_logs_are_too_few_to_name_a_rank(tmp_path: Path) -> None:
    (found,) = logged(tmp_path, all_ranks, run()[:2])

    assert found.late == ()
    assert found.says.endswith("; too few to name one")


def test_waiting_and_what_takes_no_time_are_no_ranks_own_work(tmp_path: Path) -> None:
    short = [0.01, 0.02, 0.01, 0.01]
    found = logged(tmp_path, all_ranks, run(more={"batch-generator": short, "all-grads-sync": [50.0, 1.0, 50.0, 50.0]}))

    assert [each.what for each in found] == ["forward-compute"]


def test_deepspeeds_clocks_of_the_ranks_that_log(tmp_path: Path) -> None:
    lines = []
    for step, (fast, slow) in enumerate(zip(drawn(0), drawn(2), strict=True), 1):
        for rank, took in ((0, fast), (1, slow)):
            lines.append(
                f"[2026-03-20 16:22:{step:02},683] [INFO] [logging.py:96:log_dist] [Rank {rank}] time (ms) |"
                f" fwd_microstep: {took:.2f} | bwd_microstep: 220.35 | bwd_inner_microstep: 100.00"
                " | bwd_allreduce_microstep: 115.16 | step_microstep: 0.06"
            )
        lines.append(f"[2026-03-20 16:22:{step:02},700] [INFO] [logging.py:96:log_dist] step={step}, skipped=0")
    found = told(tmp_path, lines)

    assert [(each.what, each.late) for each in found] == [("fwd_microstep", (1,)), ("bwd_inner_microstep", ())]


def test_a_column_of_computation_names_the_late_rank(tmp_path: Path) -> None:
    rows = [f"{step},{rank},500,{drawn(rank)[step]:.3f}" for step in range(12) for rank in range(4)]
    (tmp_path / "log.csv").write_text("\n".join(["step,rank,step_time_ms,compute_time_ms", *rows]))
    (found,) = judged(read_series(tmp_path / "log.csv")).rank_times

    assert (found.what, found.late) == ("compute time", (2,))
