"""Diagnoses of samples and shared traces, which many tests ask about: each is made once in a process."""

from functools import cache
from pathlib import Path

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis


@cache
def diagnosis_of(path: Path) -> Diagnosis:
    """The diagnosis, without options, of files that no test changes."""
    return analyze(path)
