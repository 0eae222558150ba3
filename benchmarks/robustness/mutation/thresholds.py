"""Thresholds that are constants of Python, in the packages that judge: each is moved, and tests run until one fails.

Numbers without a name, or several in one assignment, and tables of numbers are not moved.
"""

import ast
import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from .mutants import moved_by_a_fifth

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
HANGS_AFTER_S = 900
CHOSEN = "not (slow or compat or gpu or capture or browser or long or hypothesis)"
SHOWN = ("LONGEST", "FINEST", "SHOWN", "KEPT", "NAMED", "LARGEST", "DEEPEST", "HOURS", "HALF", "PASSES")
NOT_JUDGED = frozenset(
    # units and marks
    ("BILLION", "GB", "_NS", "FP32_BYTES", "_MASK_BYTES", "_FACTORED_BYTES", "_MASK_ARGUMENT", "NO_OVERHEAD", "_FREE",
     "_OF_TWO", "_UNIFORM", "_NO_TIME", "_ENDLESS",
     # what bounds work, or lists
     "MOST_NAMES", "MOST_ROWS", "MOST_STREAMS", "MOST_ACTIVITIES", "MOST_SETTINGS", "MOST_SEQUENCES",
     "MOST_GPUS", "MOST_PLANNED", "_MOST_BYTES", "_MOST_STEPS", "_MOST_PACKED", "_OF_AN_EPOCH", "_CONVERGED",
     "_ROUNDING", "_STEPS", "_FEW_THREADS", "_HELD", "_BLOCKS", "_DIGITS", "_HALVINGS", "TYPICAL_RANKS")
)  # fmt: skip


class Threshold(NamedTuple):
    """A constant of a module."""

    module: str
    file: str
    name: str
    value: float

    @property
    def label(self) -> str:
        """The constant in one line."""
        return f"{self.module}: {self.name}"


def judged_thresholds(below: str = "diagnose") -> list[tuple[str, str]]:
    """Every mutant of the thresholds below a package, and what notices it, "" where nothing does."""
    found = [each for each in thresholds() if each.module.startswith(below)]
    mutants = [(each, moved_by_a_fifth(each.value, sign)) for each in found for sign in (1, -1)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda mutant: _judged(*mutant), mutants))


def _judged(threshold: Threshold, moved: float) -> tuple[str, str]:
    told = f"{threshold.label}: {threshold.value} is {moved}"
    noticed = "tests" if fails_with(threshold, moved) else ""
    sys.stderr.write(f"{noticed or 'unnoticed'}: {told}\n")
    return told, noticed


def fails_with(threshold: Threshold, moved: float, tests: Sequence[str] = TESTS) -> bool:
    """Whether a test fails, or does not end, where the threshold is another number."""
    change = "\n".join((threshold.module, threshold.file, threshold.name, repr(moved)))
    environment = os.environ | {"DIAGNOSE_MOVED": change, "PYTHONPATH": str(ROOT / "benchmarks")}
    words = ("-x", "-q", "-p", "robustness.mutation.moved", "-p", "no:cacheprovider", "-m", CHOSEN)
    command = [sys.executable, "-m", "pytest", *words, *tests]
    try:
        code = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=HANGS_AFTER_S).returncode
    except subprocess.TimeoutExpired:
        return True
    if code not in (0, 1, 2):  # 2: a module of tests cannot even be read with it
        raise SystemExit(f"pytest ends with {code} where {change}")
    return code != 0


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
                    yield Threshold(module, path, name, value)


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
