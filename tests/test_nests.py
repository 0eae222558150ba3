"""What runs inside what: the compiled pass and those of numpy and Python agree, whatever ends where."""

from typing import Any

import numpy as np
import pytest
from nested_events import agree

from diagnose.roofline import nests

compiled: Any = nests._nests
needs_compiled = pytest.mark.skipif(compiled is None, reason="built without a compiler")


@needs_compiled
@pytest.mark.parametrize("seed", range(30))
def test_the_compiled_code_finds_the_same_around_each(seed: int) -> None:
    assert agree(seed, 200)


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
