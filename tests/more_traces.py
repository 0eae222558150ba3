"""Public traces of other people's jobs, which are not part of this project and which a test asks for by file name.

DIAGNOSE_MORE_TRACES names the folder that holds them.
"""

from functools import cache
from pathlib import Path

from needs import file_beside

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

VARIABLE = "DIAGNOSE_MORE_TRACES"


def more_trace(name: str) -> Path:
    """The file; the test is skipped where the folder or the file is missing."""
    return file_beside(VARIABLE, name)


@cache
def _answer(path: Path) -> Diagnosis:
    return analyze(path)


def answer_for(name: str) -> Diagnosis:
    """The diagnosis of that trace."""
    return _answer(more_trace(name))
