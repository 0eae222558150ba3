"""What the parent, the probes and the analysis agree on stands once, and costs a starting interpreter nothing."""

import ast
import re
import subprocess
import sys
from dataclasses import fields
from inspect import signature
from pathlib import Path
from types import ModuleType

import pytest

from diagnose.commands.run.command import run
from diagnose.probes import DiagnoseCallback, frameworks, profile, protocol
from diagnose.probes.config import Config
from diagnose.probes.protocol import CLAIM, DONE, RECORD, TRACE, rank_in

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "capture.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", [protocol, frameworks])
def test_it_imports_nothing_that_an_interpreter_has_not_loaded_at_its_start(module: ModuleType) -> None:
    script = (
        "import os, sys\nbefore = set(sys.modules)\n"
        f"exec(open({module.__file__!r}).read(), {{}})\nprint(set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-S", "-c", script], capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == ("set()\n", "")


@pytest.mark.parametrize("file", ["protocol.py", "frameworks.py", "bootstrap/sitecustomize.py"])
def test_what_runs_at_the_start_of_python_keeps_to_old_syntax(file: str) -> None:
    assert ast.parse((ROOT / "probes" / file).read_text(encoding="utf-8"), feature_version=(3, 9)).body


@pytest.mark.parametrize(
    ("name", "pattern", "rank"),
    [
        ("rank7.done", DONE, 7),
        ("rank012.json.gz", TRACE, 12),
        ("capture-rank3.json", RECORD, 3),
        ("rank3.json", RECORD, None),
        ("rank.claim", CLAIM, None),
        ("rank²3.claim", CLAIM, None),
        ("rank-1.claim", CLAIM, None),
        ("rank1234567890.done", DONE, None),
        ("rank", DONE, None),
    ],
)
def test_a_rank_is_read_from_a_name_of_that_pattern_alone(name: str, pattern: str, rank: int | None) -> None:
    assert rank_in(name, pattern) == rank


def test_the_command_the_callback_and_the_configuration_have_the_same_defaults() -> None:
    config = {field.name: field.default for field in fields(Config)}
    command = {parameter.name: parameter.default for parameter in run.params}
    callback = signature(DiagnoseCallback).parameters

    names = ("warmup", "skip", "sample_steps")
    assert [command[name] for name in names] == [config[name] for name in names]
    assert [callback[name].default for name in names] == [config[name] for name in names]
    assert {command["steps"], config["steps"], callback["steps"].default} == {None}  # the number of ranks decides
    assert signature(profile).parameters["active"].default == protocol.STEPS


@pytest.mark.parametrize("option", ["steps", "warmup", "skip"])
def test_the_page_states_the_default_of_the_command(option: str) -> None:
    stated = re.search(rf"^\| `--{option} N` \|.*default (\d+)", PAGE, re.MULTILINE)

    assert stated is not None
    default = {field.name: field.default for field in fields(Config)}[option]
    assert int(stated[1]) == (protocol.STEPS if default is None else default)


@pytest.mark.parametrize("name", [protocol.CONFIG, protocol.MARKS, protocol.PATCH, protocol.RUNS])
def test_the_page_names_what_is_set(name: str) -> None:
    assert f"`{name}" in PAGE


@pytest.mark.parametrize(
    ("asked", "after_torch"),
    [
        ((), ("hooks.torch_hooks",)),
        ((protocol.PATCH,), ("hooks.torch_hooks", "apply.torch")),
        ((protocol.PATCH, protocol.PIPELINE), ("pipeline.loop_begin",)),
    ],
)
def test_what_is_asked_says_what_is_hooked(
    monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], after_torch: tuple[str, ...]
) -> None:
    for name in (protocol.PATCH, protocol.PIPELINE):
        monkeypatch.delenv(name, raising=False)
    for name in asked:
        monkeypatch.setenv(name, "{}")

    assert frameworks.hooks(protocol.hooked())["torch"] == after_torch
