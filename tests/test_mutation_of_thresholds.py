"""Thresholds in Python are found, moved where they are read, and put back."""

import pytest
from robustness.mutation.rerun import Threshold, _moved, _readers
from robustness.mutation.thresholds import thresholds

from diagnose.predict import plan
from diagnose.ranks.network import bandwidth, slow_links
from diagnose.ranks.stragglers import host_code, lateness

pytestmark = pytest.mark.long  # all that judges is imported

SLOW = Threshold("diagnose.ranks.network.slow_links", "SLOW", 1.5)


def test_named_numbers_of_what_judges_are_thresholds_and_marks_are_none() -> None:
    found = list(thresholds())
    names = {(each.module, each.name) for each in found}

    assert SLOW in found
    assert ("diagnose.ranks.stragglers.evidence", "PERSISTENT") in names  # written as 2 / 3
    assert not {name for _, name in names} & {"NOBODY", "ABSENT", "GB", "KERNELS_KEPT", "MOST_ROWS"}


def test_a_threshold_is_moved_where_it_is_read_and_back() -> None:
    with _moved(SLOW, 1.8):
        assert (slow_links.SLOW, bandwidth.SLOW) == (1.8, 1.8)

    assert (slow_links.SLOW, bandwidth.SLOW) == (1.5, 1.5)


def test_another_module_s_own_number_of_the_same_name_stays() -> None:
    with _moved(Threshold("diagnose.ranks.stragglers.host_code", "FEWEST", 3), 4):
        assert (host_code.FEWEST, lateness.FEWEST) == (4, 3)


def test_the_functions_that_read_a_threshold_are_found() -> None:
    worth = Threshold("diagnose.predict.plan", "WORTH_PLANNING", 1.02)

    found = _readers([SLOW, worth])

    assert found[slow_links._slow.__code__] == [SLOW]
    assert found[plan.pays.__code__] == [worth]
