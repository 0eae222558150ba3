"""Thresholds that are constants of Python: each moved in a process of its own, in which the tests of its module run.

Tests that say a threshold by its name move along with it and notice nothing: what notices it states the number.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .mutants import moved_by_a_fifth

ROOT = Path(__file__).parents[2]
IN_NUMBERS = "test_both_sides_of_each_threshold_in_numbers"
TESTS: dict[str, tuple[str, ...]] = {  # module: the tests that are about it, first the one that is likely to notice
    "diagnose.attribution.leading": (f"tests/test_verdict.py::{IN_NUMBERS}", "tests/test_verdict.py"),
    "diagnose.judge.verdict": (f"tests/test_verdict.py::{IN_NUMBERS}", "tests/test_verdict.py"),
    "diagnose.judge.slow_steps": (f"tests/test_slow_steps.py::{IN_NUMBERS}", "tests/test_slow_steps.py"),
}
IN_THIS_PROCESS = ("-o", "filterwarnings=default")  # in which modules are imported before pytest could rewrite them
SHOWN = ("LONGEST", "MOST_", "FINEST", "SHOWN", "KEPT", "NAMED")  # how much is shown, not what is judged


def judged_thresholds() -> list[tuple[str, str]]:
    """Every mutant of these thresholds, and what notices it, "" where nothing does."""
    outcomes = []
    for module in TESTS:
        _check_that_they_pass(module)
        for name, value in thresholds(module):
            for sign in (1, -1):
                moved = moved_by_a_fifth(value, sign)
                by = "tests" if _fails(module, name, moved) else ""
                outcomes.append((f"{module}: {name}: {value} is {moved}", by))
    return outcomes


def thresholds(module: str) -> Iterator[tuple[str, float]]:
    """The constants of a module that are fractional numbers, or whole ones of what is counted, by their names."""
    tree = ast.parse(Path(importlib.import_module(module).__file__ or "").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            name, value = getattr(node.targets[0], "id", ""), node.value.value
            if (
                isinstance(value, int | float)
                and not isinstance(value, bool)
                and not any(w in f"{name}_" for w in SHOWN)
            ):
                yield name, value


def _check_that_they_pass(module: str) -> None:
    """Else a failing test would notice every change."""
    if code := _tested(module):
        raise SystemExit(f"pytest {' '.join(TESTS[module])} ends with {code} by itself")


def _fails(module: str, name: str, value: float) -> bool:
    """Whether a test of the module fails with another value there."""
    return _tested(module, name, value) != pytest.ExitCode.OK


def _tested(module: str, name: str = "", value: float = 0) -> int:
    """How the tests of the module end in a copy of this process, in which a constant may have another value."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        if name:
            _move(name, getattr(importlib.import_module(module), name), value)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            os.chdir(ROOT)
            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *IN_THIS_PROCESS, *TESTS[module]])
    finally:
        os._exit(code)


def _move(name: str, old: float, new: float) -> None:
    """The constant in its module and in those that have imported it."""
    for other in [module for key, module in sys.modules.items() if key.startswith("diagnose")]:
        if other.__dict__.get(name) == old:
            setattr(other, name, new)
