"""A test over all rows names those that fail."""

import pytest
from over_all import over_all


def test_the_rows_that_fail_are_named() -> None:
    @over_all("one, other", [(1, 1), (1, 2), (0, 3)])
    def alike(one: int, other: int) -> None:
        assert one == other

    with pytest.raises(AssertionError, match=r"(?s)2 of 3:.*'other': '2'.*'other': '3'"):
        alike()
