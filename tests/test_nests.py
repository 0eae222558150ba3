"""What runs inside what: the compiled pass and those of numpy and Python agree, whatever ends where."""

from typing import Any

import numpy as np
import pytest

from diagnose.arrays import Ints, Mask
from diagnose.roofline import nests

compiled: Any = nests._nests
needs_compiled = pytest.mark.skipif(compiled is None, reason="built without a compiler")


def events(seed: int, count: int = 200) -> tuple[Ints, Mask]:
    """Ends of events that begin one after the other on three threads, some inside others, some across their ends."""
    drawn = np.random.default_rng(seed)
    begin = np.sort(drawn.integers(0, 400, count))
    is_first = np.isin(np.arange(count), [0, count // 3, count // 2])
    return begin + drawn.integers(0, drawn.choice([3, 30, 300]), count), is_first


def before_each(count: int) -> Any:
    return np.arange(-1, count - 1, dtype=np.int32)


@needs_compiled
@pytest.mark.parametrize("seed", range(30))
def test_the_compiled_code_finds_what_is_around_each(seed: int) -> None:
    end, is_first = events(seed)
    up = before_each(len(end))

    compiled.enclosing(end, is_first, up)

    assert up.tolist() == nests._by_stack(end, is_first).tolist()
    assert up.tolist() == nests._by_rounds(end, is_first, before_each(len(end))).tolist()


@needs_compiled
@pytest.mark.parametrize("seed", range(30))
def test_the_compiled_code_finds_the_nearest_that_is_marked(seed: int) -> None:
    up = nests._by_rounds(*events(seed), before_each(200))
    marked = np.random.default_rng(seed).random(len(up)) < 0.1

    assert nests.nearest(marked, up).tolist() == nests._nearest_by_rounds(marked, up).tolist()


def test_the_nearest_marked_one_is_the_event_itself_or_one_around_it() -> None:
    up = np.array([-1, 0, 1, 2, 0, -1], np.int32)
    marked = np.array([False, True, False, True, False, False])

    assert nests.nearest(marked, up).tolist() == [-1, 1, 1, 3, -1, -1]
    assert nests.nearest(marked[:0], up[:0]).tolist() == []


@needs_compiled
def test_arrays_that_do_not_go_together_are_refused() -> None:
    marked, up = np.ones(3, bool), np.array([-1, 0, 1], np.int32)

    with pytest.raises(ValueError, match="do not go together"):
        compiled.nearest(marked, up, np.empty(2, np.int32))
    with pytest.raises(ValueError, match="do not go together"):
        compiled.enclosing(np.zeros(2, np.int64), marked, up)
    with pytest.raises(ValueError, match="behind what is around it"):
        compiled.nearest(marked, np.array([-1, 1, 0], np.int32), up)
