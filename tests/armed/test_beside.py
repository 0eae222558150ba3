"""The thread beside the training one: what it does until it is stopped."""

import threading

import pytest

from diagnose.probes.timing.background import Background


def test_all_that_was_noted_before_the_stop_is_in_the_last_turn() -> None:
    noted, written = [1], list[int]()
    beside = Background(lambda: written.extend(noted), lambda: written.append(-1))
    beside.start()
    noted.append(2)

    assert beside.stop(60.0)
    assert written[-3:] == [1, 2, -1]


def test_a_turn_that_hangs_holds_up_nobody() -> None:
    hangs = threading.Event()
    beside = Background(lambda: hangs.wait(30), lambda: None)
    beside.start()

    assert not beside.stop(0.1)
    hangs.set()


class Waits:
    """In the place of the thread: its waits are over at once, and the last of them finds that the loop is over."""

    def __init__(self, beside: Background, turns: int) -> None:
        self._beside, self._left = beside, turns - 1

    def wait(self, seconds: float) -> None:
        self._left -= 1
        self._beside._over = self._left == 0


def test_a_disk_that_is_full_for_long_is_told_thrice_and_written_once_there_is_room(
    capfd: pytest.CaptureFixture[str],
) -> None:
    outcomes = [OSError("no space")] * 9 + [None] * 3
    left, closed = iter(outcomes), list[int]()

    def turn() -> None:
        error = next(left)
        if error is not None:
            raise error

    beside = Background(turn, lambda: closed.append(len(list(left))))
    beside._run(Waits(beside, len(outcomes)))  # type: ignore[arg-type]

    err = capfd.readouterr().err
    assert closed == [0]  # no turn is left out
    assert err.count("step times not written: OSError: no space") == 3
    assert err.count("step times are written again") == 1
