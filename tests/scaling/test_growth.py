"""The growth of a step with the GPUs: exact runs are found again, in the range, whatever their shape."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from diagnose.arrays import Floats
from diagnose.predict.growth import RUN_NOISE, fitted


def grown(shape: float, gpus: Floats) -> Floats:
    return np.log(gpus) if shape == 0 else (gpus**shape - 1) / shape


def exact(shape: float, growing: float, gpus: Floats, work: Floats) -> Floats:
    return np.asarray(work + growing * grown(shape, gpus))


@given(
    shape=st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]),
    share=st.floats(0.02, 2.0),
    count=st.integers(2, 6),
    strong=st.booleans(),
)
def test_another_size_of_the_same_law_lies_in_the_range(shape: float, share: float, count: int, strong: bool) -> None:
    gpus = 2.0 ** np.arange(count)
    work = 1 / gpus if strong else np.ones(count)
    growing = share * float(work[-1]) / float(grown(shape, gpus[-1:])[0])
    found = fitted(gpus, work, exact(shape, growing, gpus, work), np.full(count, RUN_NOISE))
    assert found is not None

    other = 2 * gpus[-1:]
    work_there = 1 / other if strong else np.ones(1)
    low, likely, high = found.step_s(float(other[0]), float(work_there[0]))
    truth = float(exact(shape, growing, other, work_there)[0])
    assert low <= likely <= high
    assert low * 0.99 <= truth <= high * 1.01


@pytest.mark.parametrize("shape", [-1.0, 0.0, 1.0])
def test_many_sizes_find_the_crossing_of_their_law(shape: float) -> None:
    gpus = 2.0 ** np.arange(9)
    growing = 1 / float(grown(shape, np.array([100.0]))[0])  # what grows is the work at 100 GPUs
    found = fitted(gpus, np.ones(9), exact(shape, growing, gpus, np.ones(9)), np.full(9, RUN_NOISE))
    assert found is not None

    sizes = np.arange(2.0, 4096.0)
    earliest, likely, latest = found.crossings(sizes, np.ones(len(sizes)))
    assert earliest is not None
    assert earliest <= 101
    assert latest is None or latest >= 99
    assert likely is None or earliest <= likely


def test_one_size_has_no_growth() -> None:
    assert fitted(np.full(3, 8.0), np.ones(3), np.ones(3), np.full(3, RUN_NOISE)) is None


def test_steps_that_do_not_grow_leave_little_to_grow() -> None:
    found = fitted(2.0 ** np.arange(6), np.ones(6), np.ones(6), np.full(6, RUN_NOISE))
    assert found is not None

    low, _, high = found.step_s(64.0, 1.0)
    assert 0.97 < low <= 1.0 <= high < 1.08
