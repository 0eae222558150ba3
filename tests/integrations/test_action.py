"""The GitHub Action in `action.yml`: its steps run as a runner runs them, with the environment that it gives."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import diagnoses
import pytest
import yaml
from click.testing import CliRunner
from integrations.told import SAMPLES
from msgspec.structs import replace

from diagnose.cli import main
from diagnose.commands.analyze.command import here
from diagnose.diagnosis.advice import CodeLine
from diagnose.report.annotations import annotations

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
SLOW, HEALTHY = (str(SAMPLES / f"cpu-{name}.json.gz") for name in ("slow-loader", "healthy"))
EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
INSTALL, DIAGNOSE = ACTION["runs"]["steps"]
# A Python that makes an environment whose pip is only asked, and whose diagnose is the one under test.
PYTHON = f"""#!/bin/bash
mkdir -p "$3/bin"
printf '#!/bin/bash\\nprintf "%%s\\\\n" "$PIP_CONSTRAINT" "$@" >>"%s"\\n' "$RUNNER_TEMP/asked" >"$3/bin/pip"
printf '#!/bin/bash\\nexec "{sys.executable}" -m diagnose "$@"\\n' >"$3/bin/diagnose"
chmod +x "$3/bin/pip" "$3/bin/diagnose"
"""


class Runner:
    """Runs the steps in a folder of its own, as the runner of GitHub does."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkout = folder, folder / "checkout"
        self.checkout.mkdir()
        self.files = {name: folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
        for file in self.files.values():
            file.touch()
        self.python = folder / "python"
        self.python.write_text(PYTHON)
        self.python.chmod(0o755)

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Both steps with these inputs; what the last one left."""
        given = {name: one.get("default", "") for name, one in ACTION["inputs"].items()} | {"python": str(self.python)}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        installed = self._step(INSTALL, given)
        assert (installed.returncode, installed.stderr) == (0, "")
        return self._step(DIAGNOSE, given)

    def _step(self, step: dict[str, Any], given: dict[str, str]) -> subprocess.CompletedProcess[str]:
        env = {name: EXPRESSION.sub(lambda found: given[found[1].removeprefix("inputs.")], str(value))
               for name, value in step["env"].items()}  # fmt: skip
        env |= {name: str(file) for name, file in self.files.items()} | {"PATH": "/usr/bin:/bin"}
        env |= {"RUNNER_TEMP": str(self.folder), "GITHUB_ACTION_PATH": str(ROOT), "HOME": str(self.folder)}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        return subprocess.run(command, cwd=self.checkout, env=env, capture_output=True, text=True, check=False)

    @property
    def summary(self) -> str:
        return self.files["GITHUB_STEP_SUMMARY"].read_text()

    @property
    def outputs(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in self.files["GITHUB_OUTPUT"].read_text().splitlines())


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_no_input_is_part_of_a_script_and_nothing_is_fetched_but_by_pins() -> None:
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"
        assert "uses" not in step
    assert set(ACTION["outputs"]) == set(re.findall(r'echo "(\w+)=', DIAGNOSE["run"]))


@pytest.mark.long
def test_a_run_is_told_in_the_summary_and_as_annotations(runner: Runner) -> None:
    ended = runner.run(run=SLOW)

    assert ended.returncode == 0, ended.stderr
    first, *findings = ended.stdout.splitlines()
    assert first.startswith("::notice title=diagnose::data-bound; set num_workers=4")
    assert any(re.match(r"::(warning|error) title=diagnose%3A data-wait::", line) for line in findings)
    assert runner.summary.startswith("## diagnose: **data-bound**")
    assert Path(runner.outputs["summary"]).read_text() == runner.summary
    assert Path(runner.outputs["page"]).read_text().startswith("<!doctype html>")
    asked = (runner.folder / "asked").read_text().splitlines()
    assert asked == [f"{ROOT}/constraints.txt", "install", "--quiet", "--disable-pip-version-check", str(ROOT)]


@pytest.mark.long
def test_it_fails_on_findings_as_severe_as_is_asked(runner: Runner) -> None:
    assert runner.run(run=SLOW, fail_on="info").returncode == 1
    assert runner.summary.startswith("## diagnose: **data-bound**")


@pytest.mark.long
def test_a_slower_run_fails_against_another_run_and_a_baseline(runner: Runner) -> None:
    folder = str(runner.checkout / ".diagnose-baselines")
    assert CliRunner().invoke(main, ["baseline", "save", "loop", HEALTHY, "--dir", folder]).exit_code == 0

    for inputs in ({"before": HEALTHY}, {"baseline": "loop", "tolerance": ""}):
        slower, same = runner.run(run=SLOW, **inputs), runner.run(run=HEALTHY, **inputs)
        assert (slower.returncode, same.returncode) == (1, 0), slower.stderr + same.stderr
        assert slower.stdout.startswith("::error title=diagnose::B is ")
        assert "Regression: the step takes" in slower.stdout
        assert same.stdout.startswith("::notice title=diagnose::no difference")
    assert runner.summary.count("\n#### Causes\n") == 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "hostile"),
    [
        *(
            (name, """$(touch pwned)`touch pwned`"; touch pwned; '""")
            for name in ("run", "before", "baseline", "fail_on")
        ),
        ("run", "--html=pwned"),
        ("run", "a\n::error::b"),
    ],
)
def test_a_hostile_input_is_a_name_and_nothing_else(name: str, hostile: str, runner: Runner) -> None:
    ended = runner.run(**{"run": SLOW, name: hostile})

    assert ended.returncode in (2, 3)
    assert ended.stdout == "::error title=diagnose::The run could not be judged; the log of this step says why.\n"
    assert "\n::error::b" not in ended.stderr
    assert not list(runner.folder.rglob("pwned"))


def test_an_empty_run_is_not_the_folder_of_the_job(runner: Runner) -> None:
    shutil.copy(SLOW, runner.checkout)

    ended = runner.run(run="")

    assert (ended.returncode, runner.summary) == (2, "")
    assert "The input run is empty" in ended.stdout


def test_before_and_baseline_are_one_too_many(runner: Runner) -> None:
    assert "Choose one of before and baseline" in runner.run(run=SLOW, before=SLOW, baseline="loop").stdout


@pytest.mark.parametrize("against", [{"before": HEALTHY}, {"baseline": "loop"}])
def test_a_severity_that_a_comparison_would_not_look_at_is_refused(against: dict[str, str], runner: Runner) -> None:
    ended = runner.run(run=SLOW, fail_on="info", **against)

    assert ended.returncode == 2
    assert "ask for fail-on in a step of its own" in ended.stdout


def test_a_finding_stands_at_its_line_of_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").touch()
    found = diagnoses.data_bound()
    at = CodeLine(file="/job/repo/src/train.py", line=7, function="f", share=0.5, of="step")
    finding = replace(diagnoses.DATA_WAIT, where=(at,), says="100 % of\nit\r::error::x")

    line = annotations(replace(found, findings=(finding,)), here)[1]

    assert re.match(r"::\w+ file=src/train\.py,line=7,title=diagnose%3A data-wait::100 %25 of it ::error::x ", line)


def test_only_files_of_the_checkout_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkout").mkdir()
    (tmp_path / "secret.py").touch()
    shutil.copy(tmp_path / "secret.py", tmp_path / "checkout" / "train.py")
    monkeypatch.chdir(tmp_path / "checkout")

    assert here("C:\\job\\train.py") == "train.py"
    assert [here(file) for file in ("../secret.py", "/etc/passwd", "", "train.py\0", "x" * 10_000)] == [""] * 5
