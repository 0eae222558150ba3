"""How kernels fill the device: waves of blocks, the part of the last one, and warps held at once."""

from pathlib import Path

import numpy as np
import pytest
from analysed import ADD, GEMM
from hypothesis import given
from hypothesis import strategies as st
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.formulas.kineto import tail_share, waves

SMS, HELD = 132, 8  # multiprocessors of an H100; blocks of 128 threads that one holds at once at an occupancy of 50 %


def answer(folder: Path, *blocks: int, **args: object) -> Diagnosis:
    """Steps of products of so many blocks each, all of 100 us."""
    job = Trace()
    for _ in range(3):
        with job.step():
            for number in blocks:
                with job.inside("aten::mm", [[64, 64], [64, 64]]):
                    job.launch(GEMM, 100, blocks=number, **args)
            job.sync()
    job.write(folder / "rank0.json")
    return analyze(folder)


def fact(found: Diagnosis, name: str) -> tuple[object, str]:
    return next((fact.value, fact.because) for fact in found.facts if fact.name == name)


def test_blocks_beyond_a_full_wave_leave_a_tail(tmp_path: Path) -> None:
    found = answer(tmp_path, 9 * SMS)  # nine blocks for each multiprocessor, which holds eight
    row = next(row for row in found.kernels if row.name == GEMM)

    assert (row.occupancy, row.waves, row.tail_share) == (0.5, 9 / HELD, (2 - 9 / HELD) / 2)
    assert fact(found, "tail_wave_share")[0] == pytest.approx(row.tail_share * row.share)
    assert fact(found, "occupancy_share")[0] == 0.5


@pytest.mark.parametrize("blocks", [2 * HELD * SMS, HELD * SMS, SMS, 10])
def test_whole_waves_and_less_than_one_have_no_tail(tmp_path: Path, blocks: int) -> None:
    assert fact(answer(tmp_path, blocks), "tail_wave_share")[0] == 0


@pytest.mark.parametrize("missing", [{"est. achieved occupancy %": None}, {"est. achieved occupancy %": 0}])
def test_without_kinetos_estimate_it_is_unknown(tmp_path: Path, missing: dict[str, object]) -> None:
    found = answer(tmp_path, 9 * SMS, **missing)

    for name in ("tail_wave_share", "occupancy_share"):
        assert fact(found, name) == (None, "the trace does not describe how most of its kernels were launched")
    assert found.kernels[0].waves is None


def test_a_mean_over_few_kernels_is_none(tmp_path: Path) -> None:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.launch(GEMM, 900, **{"est. achieved occupancy %": 0})
            job.launch(ADD, 100)
            job.sync()
    job.write(tmp_path / "rank0.json")

    assert fact(analyze(tmp_path), "occupancy_share")[0] is None


@given(st.floats(0.01, 1e4))
def test_a_tail_is_less_than_a_wave(count: float) -> None:
    tail = float(tail_share(np.array([count]))[0])
    assert 0 <= tail < 0.5
    assert tail * np.ceil(count) < 1


def test_an_unknown_launch_has_no_waves() -> None:
    blocks, threads, percent = np.array([8.0, np.nan, 8.0]), np.array([128, 128, -1]), np.array([50, 50, 50])
    found = waves(blocks, threads, percent, 2048)
    assert found[0] == 1
    assert np.isnan(found[1:]).all()
    assert np.isnan(tail_share(found)[1:]).all()
