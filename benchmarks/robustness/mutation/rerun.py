"""Tests that are run once as they are, and then again with a threshold moved that they read."""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from .mutants import moved_by_a_fifth

MOST_TESTS = 60  # for each threshold: those that are about thresholds by their names, then the quickest
LONGEST_S = 3.0  # of a test
HANGS_AFTER_S = 60
_READ_ONCE = ("diagnose.rule", "diagnose.hardware", "diagnose.data", "diagnose.cli")  # no threshold is read there


class Threshold(NamedTuple):
    """A threshold that is a constant of a module."""

    module: str
    name: str
    value: float

    @property
    def label(self) -> str:
        """The constant in one line."""
        return f"{self.module}: {self.name}"


class Hang(BaseException):
    """A test that does not end with another number there."""


class Rerun:
    """A plugin of pytest that runs the tests, in the place of its own loop.

    Attributes:
        noticed: each mutant with "tests" where a test fails, else "".
    """

    def __init__(self, among: Sequence[Threshold]) -> None:
        self._among = among
        self._read_in: dict[Threshold, list[tuple[bool, float, pytest.Item]]] = defaultdict(list)
        self.noticed: list[tuple[str, str]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """All tests once, then for each threshold those that read it, until one fails."""
        readers = _readers(self._among)
        for item in session.items:
            self._watch(item, readers)
        for threshold in self._among:
            found = sorted(self._read_in[threshold], key=lambda each: each[:2])[:MOST_TESTS]
            for sign in (1, -1):
                moved = moved_by_a_fifth(threshold.value, sign)
                fails = any(_fails_with(threshold, moved, item) for _, _, item in found)
                unread = "" if found else ", read in no test"
                self.noticed.append((f"{threshold.label}: {threshold.value} is {moved}{unread}", "tests" * fails))
                sys.stderr.write(f"{self.noticed[-1][1] or 'unnoticed'}: {self.noticed[-1][0]}\n")
        return True

    def _watch(self, item: pytest.Item, readers: dict[CodeType, list[Threshold]]) -> None:
        """Which thresholds are read while the test runs; of one that fails by itself, or when it runs again, none."""
        called: set[CodeType] = set()

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call":
                called.add(frame.f_code)

        _forget()
        began = time.process_time()
        sys.setprofile(note)
        try:
            passed = _passes(item)
        finally:
            sys.setprofile(None)
        took = time.process_time() - began
        _forget()
        passed = passed and _passes(item)
        read = {threshold for code in called if code in readers for threshold in readers[code]}
        general = "threshold" not in item.nodeid
        for threshold in read if passed and took < LONGEST_S else ():
            self._read_in[threshold].append((general, took, item))


def _passes(item: pytest.Item) -> bool:
    """Whether the test passes, with fixtures of its own."""
    item._initrequest()  # type: ignore[attr-defined]  # as pytest does before a test
    reports = runtestprotocol(item, log=False, nextitem=None)
    return all(report.passed for report in reports)


def _fails_with(threshold: Threshold, moved: float, item: pytest.Item) -> bool:
    def ring(*_: object) -> None:
        raise Hang

    with _moved(threshold, moved):
        before = signal.signal(signal.SIGALRM, ring)
        signal.alarm(HANGS_AFTER_S)
        try:
            return not _passes(item)
        except BaseException:  # pytest lets some pass on, as an interrupt
            return True
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def _moved(threshold: Threshold, moved: float) -> Iterator[None]:
    """The constant in its module and in those that have imported it, those of the tests too; nothing is remembered."""
    held = [module for module in list(sys.modules.values()) if _has(module, threshold)]
    for module in held:
        setattr(module, threshold.name, moved)
    _forget()
    try:
        yield
    finally:
        for module in held:
            setattr(module, threshold.name, threshold.value)
        _forget()


def _has(module: ModuleType, threshold: Threshold) -> bool:
    """Whether it is the constant's module, or one that has it and makes none of that name itself."""
    if not isinstance(module, ModuleType) or threshold.name not in vars(module):
        return False
    known = vars(module)[threshold.name]
    same = type(known) is type(threshold.value) and known == threshold.value
    return same and (module.__name__ == threshold.module or threshold.name not in _made_in(module))


@functools.cache
def _made_in(module: ModuleType) -> frozenset[str]:
    """The names that the module assigns, and not those that it imports."""
    body = _tree_of(module).body
    return frozenset(
        name.id for node in body if isinstance(node, ast.Assign) for name in node.targets if isinstance(name, ast.Name)
    )


@functools.cache
def _tree_of(module: ModuleType) -> ast.Module:
    path = getattr(module, "__file__", None)
    text = Path(path).read_text(encoding="utf-8") if path and path.endswith(".py") else ""
    return ast.parse(text, path or "")


def _readers(among: Sequence[Threshold]) -> dict[CodeType, list[Threshold]]:
    """The functions that name a threshold, and it is that of their module or one that they ask another module for."""
    by_name = defaultdict(list)
    for threshold in among:
        by_name[threshold.name].append(threshold)
    found: dict[CodeType, list[Threshold]] = defaultdict(list)
    for name, module in list(sys.modules.items()):
        if name.startswith("diagnose"):
            for code in _codes_of(module):
                for read in set(code.co_names) & by_name.keys():
                    found[code] += [one for one in by_name[read] if _has(module, one) or read not in vars(module)]
    return found


def _codes_of(module: ModuleType) -> Iterator[CodeType]:
    """All functions that are written in the module."""
    whole = compile(_tree_of(module), module.__file__ or "", "exec", dont_inherit=True)
    wanted = [whole]
    while wanted:
        code = wanted.pop()
        yield code
        wanted += [each for each in code.co_consts if isinstance(each, CodeType)]


@functools.cache
def _caches() -> list[Any]:
    """What the functions of this project remember."""
    kinds = type(_caches)
    return [each for each in gc.get_objects() if type(each) is kinds and _is_ours(str(each.__module__))]


def _is_ours(module: str) -> bool:
    path = getattr(importlib.import_module(module), "__file__", "") if module in sys.modules else ""
    ours = module.startswith("diagnose") or "/tests/" in str(path)
    return ours and not module.startswith(_READ_ONCE)


def _forget() -> None:
    for cached in _caches():
        cached.cache_clear()
