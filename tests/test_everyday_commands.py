"""One list of commands: the task file's, which pre-commit, the whole check, CONTRIBUTING and the README agree with."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from click.testing import CliRunner
from robustness import compat

from diagnose.cli import main

ROOT = Path(__file__).parent.parent
TASK_FILE = ROOT / "noxfile.py"
RUN_BY_OTHERS = ("advice_jobs", "gpu", "ladder_row")  # jobs and parts of a benchmark; a page of their own names the kit


@pytest.fixture(scope="module")
def tasks() -> ModuleType:
    pytest.importorskip("nox")
    spec = importlib.util.spec_from_file_location("noxfile", TASK_FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sessions() -> set[str]:
    """The tasks by name."""
    return set(re.findall(r"^@nox\.session\ndef (\w+)", TASK_FILE.read_text(), re.MULTILINE))


@pytest.mark.parametrize("page", [".pre-commit-config.yaml", ".ci/run", "CONTRIBUTING.md"])
def test_the_tasks_that_others_name_are_there(page: str) -> None:
    named = re.findall(r"nox (?:-s|--sessions?)((?: [a-z]+)+)", (ROOT / page).read_text())

    assert named
    assert {task for tasks in named for task in tasks.split()} <= sessions()


def test_contributing_names_every_task() -> None:
    assert {task for task in sessions() if f"nox -s {task}" not in (ROOT / "CONTRIBUTING.md").read_text()} == set()


def test_the_readme_and_the_task_run_the_tests_alike(tasks: ModuleType) -> None:
    assert " ".join(tasks.PYTEST) in (ROOT / "README.md").read_text().splitlines()


def test_what_the_quick_tests_leave_out_is_there(tasks: ModuleType) -> None:
    registered = subprocess.run(
        [sys.executable, "-m", "pytest", "--markers"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout

    assert all(f"@pytest.mark.{name}:" in registered for name in (*tasks.ELSEWHERE, *tasks.UNHURRIED))
    assert all((ROOT / path).exists() for path in tasks.WITH_TORCH)
    modules = [
        words[1].replace(".", "/") if words[0] == "-m" else words[0].removesuffix(".py") for words in tasks.BENCHMARKS
    ]
    assert [
        name for name in modules if not any((ROOT / f"{name}{end}").exists() for end in (".py", "/__main__.py"))
    ] == []


def test_the_page_of_benchmarks_names_each_and_no_other() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    named = {
        word.removesuffix(".py").replace("/", ".") for word in re.findall(r"`python (?:-m )?(benchmarks[\w./]+)", page)
    }
    scripts = [
        p for p in (ROOT / "benchmarks").rglob("*.py") if '__name__ == "__main__"' in p.read_text(encoding="utf-8")
    ]
    there = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__") for path in scripts}

    assert sorted(named - there) == []
    assert [name for name in sorted(there - named) if name.split(".")[1] not in RUN_BY_OTHERS] == []


def test_the_page_of_versions_is_that_of_the_rows_and_their_suites_are_there() -> None:
    words = {word for suite in compat.TABLE["suites"].values() for word in suite if word.startswith("tests/")}
    suites = {suite for row in compat.TABLE["row"] for suite in row.get("tests", ())}

    assert [word for word in sorted(words) if not (ROOT / word).exists()] == []
    assert suites == compat.TABLE["suites"].keys()
    assert compat.PAGE.read_text(encoding="utf-8") == compat.page(compat.kept())


def test_a_bug_report_asks_for_commands_that_are_there_and_for_no_trace() -> None:
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text())
    asked = [field["attributes"].get("label", "") for field in form["body"]]

    assert {"diagnose doctor --json", "diagnose analyze PATH --json"} <= set(asked)
    for command in ("doctor", "analyze"):
        assert "--json" in CliRunner().invoke(main, [command, "--help"]).stdout
    assert "attach no trace" in form["body"][0]["attributes"]["value"]
