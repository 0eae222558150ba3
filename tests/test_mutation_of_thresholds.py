"""Thresholds in Python are found, and moved for all that read them and for nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from robustness.mutation.thresholds import ROOT, Threshold, fails_with, thresholds

from diagnose.ranks.network import slow_links
from diagnose.ranks.stragglers import host_code

pytestmark = pytest.mark.long  # all that judges is imported, and processes are started

SLOW = Threshold("diagnose.ranks.network.slow_links", slow_links.__file__, "SLOW", 1.5)


def printed(moved: str, code: str) -> str:
    """What the code prints where a constant is moved before it."""
    environment = {**os.environ, "DIAGNOSE_MOVED": moved, "PYTHONPATH": str(ROOT / "benchmarks")}
    command = [sys.executable, "-c", f"import robustness.mutation.moved; {code}"]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_named_numbers_of_what_judges_are_thresholds_and_marks_are_none() -> None:
    found = list(thresholds())
    names = {(each.module, each.name) for each in found}

    assert SLOW in found
    assert ("diagnose.ranks.stragglers.evidence", "PERSISTENT") in names  # written as 2 / 3
    assert not {name for _, name in names} & {"NOBODY", "ABSENT", "GB", "KERNELS_KEPT", "MOST_ROWS"}


def test_a_threshold_is_moved_for_all_that_read_it() -> None:
    code = "from diagnose.ranks.network import bandwidth, slow_links; print(slow_links.SLOW, bandwidth.SLOW)"

    assert printed(f"{SLOW.module}\n{SLOW.file}\nSLOW\n1.8", code) == "1.8 1.8\n"


def test_another_module_s_own_number_of_the_same_name_stays() -> None:
    code = "from diagnose.ranks.stragglers import host_code, lateness; print(host_code.FEWEST, lateness.FEWEST)"

    assert printed(f"{host_code.__name__}\n{host_code.__file__}\nFEWEST\n4", code) == "4 3\n"


def test_a_moved_threshold_is_noticed_by_a_test_that_states_it(tmp_path: Path) -> None:
    stating = tmp_path / "test_slow.py"
    stating.write_text(
        "from diagnose.ranks.network.slow_links import SLOW\n\ndef test_slow():\n    assert SLOW == 1.5\n"
    )

    assert [fails_with(SLOW, moved, [str(stating)]) for moved in (1.8, 1.5)] == [True, False]
