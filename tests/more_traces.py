"""Public traces of other people's jobs, which are not part of this project and which a test asks for by file name.

DIAGNOSE_MORE_TRACES names the folder that holds them.
"""

import os
from functools import cache
from pathlib import Path

import pytest

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

VARIABLE = "DIAGNOSE_MORE_TRACES"


def more_trace(name: str) -> Path:
    """The file; the test is skipped where the folder or the file is missing."""
    path = Path(os.environ.get(VARIABLE, "")) / name
    if VARIABLE not in os.environ or not path.is_file():
        pytest.skip(f"{VARIABLE} names no folder that holds {name}")
    return path


@cache
def _answer(path: Path) -> Diagnosis:
    return analyze(path)


def answer_for(name: str) -> Diagnosis:
    """The diagnosis of that trace."""
    return _answer(more_trace(name))
