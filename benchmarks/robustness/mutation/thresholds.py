"""Thresholds that are constants of Python, in the packages that judge: each is moved, and the tests that read it run.

Numbers without a name, or several in one assignment, tables of numbers and what is reckoned when a module is imported
are not moved.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import json
import os
import pkgutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .rerun import Rerun, Threshold

ROOT = Path(__file__).parents[3]
JUDGING = (
    "diagnose.attribution.leading", "diagnose.judge", "diagnose.metrics", "diagnose.ranks", "diagnose.predict",
)  # fmt: skip
TESTS = (  # that state thresholds in numbers, each in a moment
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*threshold*.py")),
    *(f"tests/fit/test_{of}.py" for of in ("job", "memory", "step_time", "search", "calibration", "stalls", "models")),
    *(f"tests/data_pipeline/test_{of}.py" for of in ("pipeline_arithmetic", "padding_gains")),
    *(f"tests/scaling/test_{of}.py" for of in ("growth", "scaling_runs", "scaling_table")),
    *(f"tests/test_{of}.py" for of in ("verdict", "slow_steps", "batch_advice", "mfu", "order_of_findings", "padding")),
    *(f"tests/test_{of}.py" for of in ("loader_rate", "loader_room", "optimizer", "experts")),
)
CHOSEN = "not (slow or compat or gpu or capture or browser or long or hypothesis)"
SHOWN = ("LONGEST", "FINEST", "SHOWN", "KEPT", "NAMED", "LARGEST", "DEEPEST", "HOURS", "HALF", "PASSES")
NOT_JUDGED = frozenset(
    # units and marks
    ("BILLION", "GB", "_NS", "FP32_BYTES", "_MASK_BYTES", "_FACTORED_BYTES", "_MASK_ARGUMENT", "NO_OVERHEAD", "_FREE",
     "_OF_TWO", "_UNIFORM", "_TO_DEVIATION", "_NO_TIME", "_ENDLESS",
     # what bounds work, or lists
     "MOST_NAMES", "MOST_ROWS", "MOST_STREAMS", "MOST_ACTIVITIES", "MOST_COUNTED", "MOST_SETTINGS", "MOST_SEQUENCES",
     "MOST_GPUS", "MOST_PLANNED", "_MOST_BYTES", "_MOST_STEPS", "_MOST_PACKED", "_OF_AN_EPOCH", "_CONVERGED",
     "_ROUNDING", "_STEPS", "_FEW_THREADS", "_HELD", "_BLOCKS", "_DIGITS", "_HALVINGS", "TYPICAL_RANKS",
     # read when their modules are imported, and not again
     "RUN_NOISE", "_BLOCK_OF_8_BIT")
)  # fmt: skip


def judged_thresholds(below: str = "diagnose") -> list[tuple[str, str]]:
    """Every mutant of the thresholds below a package, and what notices it, "" where nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "noticed.json"
        _in_a_copy(told, [each for each in thresholds() if each.module.startswith(below)])
        noticed: list[tuple[str, str]] = [tuple(each) for each in json.loads(told.read_text(encoding="utf-8"))]
    return noticed


def thresholds() -> Iterator[Threshold]:
    """The constants of the packages that judge, by their modules."""
    for module in _modules():
        path = importlib.import_module(module).__file__
        if path is None or not path.endswith(".py"):  # a folder without code, or compiled code
            continue
        for node in ast.parse(Path(path).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_number(node.value):
                name = node.targets[0].id
                value = getattr(importlib.import_module(module), name)
                if name.isupper() and value > 0 and name not in NOT_JUDGED and not any(w in name for w in SHOWN):
                    yield Threshold(module, name, value)


def _modules() -> Iterator[str]:
    for name in JUDGING:
        yield name
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{name}."):
            yield found.name


def _is_number(node: ast.expr) -> bool:
    """Whether it is a number that is written there, or reckoned of such."""
    numbers = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    others = [each for each in ast.walk(node) if not isinstance(each, ast.Constant | ast.BinOp | ast.operator)]
    return bool(numbers) and not others and all(type(each) in (int, float) for each in numbers)


def _in_a_copy(told: Path, among: list[Threshold]) -> None:
    """The tests run in a copy of this process, which imports what pytest could otherwise rewrite."""
    child = os.fork()
    if child:
        if code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit(f"the tests of the thresholds end with {code}")
        return
    code = 1
    try:
        rerun = Rerun(among)
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            os.chdir(ROOT)
            plain = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "filterwarnings=default", "-m", CHOSEN)
            code = pytest.main([*plain, *TESTS], plugins=[rerun])
        told.write_text(json.dumps(rerun.noticed), encoding="utf-8")
    finally:
        os._exit(code)
