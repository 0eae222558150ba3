"""Tests whose subject is a measurement of real time, which whatever else the machine does can spoil: for `.ci/slow`."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TRIES = 3


def noisy(test: Callable[..., None]) -> Callable[..., None]:
    """The test has to pass once in three tries, each in a folder of its own.

    A machine that is busy or stands still lengthens whatever it meets, and seldom the same three times; what a defect
    makes of the measurement it makes each time.
    """

    @pytest.mark.slow
    @functools.wraps(test)
    def tried(tmp_path: Path, **given: Any) -> None:
        for number in range(1, TRIES + 1):
            folder = tmp_path / str(number)
            folder.mkdir()
            try:
                return test(tmp_path=folder, **given)
            except Exception:  # an answer that lacks a part fails otherwise
                if number == TRIES:
                    raise

    return tried
