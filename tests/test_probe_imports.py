"""What the probes import in the training process: the standard library, torch, and what the job has loaded already."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROBES = Path(__file__).parent.parent / "probes"
LOADED_BY_THE_JOB = {  # the file, and what it imports once the job has
    ("reporting/report.py", "transformers"): "a Trainer is logging",
    ("trainers/transformers_trainer.py", "transformers"): "transformers.trainer has been imported",
    ("trainers/lightning_trainer.py", "f'{root}.{module}'"): "its package has been imported",
    ("recording/other_profilers.py", "module"): "modules of torch, listed above",
}
OURS = {  # what comes with diagnose
    ("recording/ranges.py", "nvtx"): "its ranges are what Nsight Systems records; without it torch's own",
    ("__init__.py", "home"): "a module of the probes",
    ("attach.py", "f'.{name}'"): "a module of the probes",
    ("bootstrap/sitecustomize.py", "package + '.' + name"): "a module of the probes",
    ("facts/job_objects.py", "'.model'"): "a module of the probes",
    ("facts/when_due.py", "'.record'"): "a module of the probes",
    ("facts/when_due.py", "'..stacks.folding'"): "a module of the probes",
}
IMPORTING = ("import_module", "__import__")


def imported(path: Path, depth: int) -> Iterator[str]:
    """The packages that a module imports by name, wherever; what it spells in code; and what is above the probes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").split(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level > depth:
            yield "." * node.level + (node.module or "")
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in IMPORTING and node.args:
            yield ast.unparse(node.args[0])


def foreign(probes: Path) -> set[tuple[str, str]]:
    """File and import of all that is neither torch nor of the standard library."""
    return {
        (name, package)
        for path in sorted(probes.rglob("*.py"))
        for name in [path.relative_to(probes).as_posix()]
        for package in imported(path, depth=len(Path(name).parts))
        if package != "torch" and package not in sys.stdlib_module_names
    }


def test_the_probes_import_the_standard_library_torch_and_what_the_job_has_loaded() -> None:
    assert foreign(PROBES) == (LOADED_BY_THE_JOB | OURS).keys()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import msgspec", "msgspec"),
        ("def f():\n    from numpy.linalg import norm", "numpy"),
        ("try:\n    import os, click as c\nexcept ImportError: ...", "click"),
        ("from diagnose import facts", "diagnose"),
        ("from ..diagnose import facts", "..diagnose"),
        ("importlib.import_module('pan' + 'das')", "'pan' + 'das'"),
        ("__import__('rich')", "'rich'"),
    ],
)
def test_any_other_import_is_named(line: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "window.py").write_text(f"from . import config\nimport torch.nn, json\n{line}\n")

    assert foreign(tmp_path) == {("window.py", told)}
