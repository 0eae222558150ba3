"""What `diagnose analyze` tells of an armed run beside its text: the gate for CI, names of windows, the patch."""

import json
from pathlib import Path
from typing import Any

import pytest
from armed_folders import armed_folder
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.commands.agents.answers import Answers
from diagnose.commands.agents.roots import Roots

HEALTHY, SLOW = "cpu-healthy.json.gz", "cpu-slow-loader.json.gz"


def analyze(*words: object) -> Result:
    return CliRunner().invoke(main, ["analyze", *map(str, words)])


@pytest.mark.parametrize(
    ("sample", "severity"), [(HEALTHY, "critical"), (HEALTHY, "info"), (SLOW, "critical"), (SLOW, "info")]
)
def test_the_gate_of_a_run_is_that_of_its_windows(sample: str, severity: str, tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[20], sample=sample)

    whole = analyze(run, "--fail-on", severity)
    window = analyze(run / "step-20", "--fail-on", severity)

    assert whole.exit_code == window.exit_code
    assert "window  " in whole.stdout


def test_one_window_of_several_is_enough_to_fail(tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[20, 30], sample=HEALTHY)
    slow = armed_folder(tmp_path / "slow", windows=[30], sample=SLOW)
    before = analyze(run, "--fail-on", "critical").exit_code

    (slow / "step-30" / "rank0.json.gz").replace(run / "step-30" / "rank0.json.gz")

    assert (before, analyze(run, "--fail-on", "critical").exit_code) == (0, 1)


def test_a_gate_with_nothing_to_judge_says_so(tmp_path: Path) -> None:
    done = analyze(armed_folder(tmp_path / "run", windows=[]), "--fail-on", "info")

    assert done.exit_code == 0
    assert "no window of this run has a diagnosis" in done.stderr


@pytest.mark.parametrize(("sample", "ranks"), [(HEALTHY, 1), ("gloo-healthy", 2)])
@pytest.mark.parametrize("windows", [[20], [20, 30]])
def test_a_window_is_named_by_its_folder_whatever_the_number_of_ranks(
    sample: str, ranks: int, windows: list[int], tmp_path: Path
) -> None:
    run = armed_folder(tmp_path / "run", windows, sample, ranks)

    found = analyze(run, "--run", "step-20", "--json")

    assert found.exit_code == 0, found.stderr
    files = json.loads(found.stdout)["trace"]["files"]
    assert files == [str(run / "step-20" / f"rank{rank}.json.gz") for rank in range(ranks)]


def test_an_agent_names_a_window_as_the_run_does(tmp_path: Path) -> None:
    armed_folder(tmp_path / "run", windows=[20, 30])
    ask = Answers(Roots([tmp_path])).answer

    told, failed = ask("analyze", {"path": "run", "run": "step-20"})
    refused, wrong = ask("analyze", {"path": "run", "run": "step-9"})

    assert (failed, wrong) == (False, True)
    assert told.startswith("## diagnose: ")
    assert "choose one of: step-20, step-30" in refused


@pytest.mark.parametrize("where", ["", "step-20", "step-20/rank0.json.gz"])
def test_a_name_that_nothing_has_names_what_there_is(where: str, tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[20])

    done = analyze(run / where, "--run", "nope")

    assert (done.exit_code, done.stdout) == (2, "")
    assert "no run called 'nope'" in done.stderr
    assert "rank0.json.gz" in done.stderr


def with_patch(window: Path, sets: dict[str, Any]) -> None:
    """The record of a run with a patch that came without its prediction."""
    record = {"applied": {"torch": sets}, "refused": [], "expected": None}
    (window / "capture-rank0.json").write_text(json.dumps(record))


def test_the_report_of_a_run_with_a_patch_says_what_came_of_it(tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[20, 30])
    with_patch(run / "step-30", {"cudnn_benchmark": True})

    text, found = analyze(run).stdout, json.loads(analyze(run, "--json").stdout)

    assert "applied     cudnn_benchmark=True: predicted unknown" in text
    assert [patch["set"] for patch in found["applied"]["patches"]] == [{"cudnn_benchmark": True}]
    assert json.loads(analyze(run / "step-20", "--json").stdout)["applied"] is None


def test_a_run_without_a_patch_has_none(tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[20])

    assert json.loads(analyze(run, "--json").stdout)["applied"] is None
    assert "applied:" not in analyze(run).stdout


def run_of_ten_seconds(folder: Path) -> Path:
    """An armed run with where the time of its process went: 4 s to its first step, 5 s of steps, 1 s after them."""
    run = armed_folder(folder, windows=[])
    spans = {name: {"ns": s * 10**9, "ranges_ns": {}} for name, s in (("before", 4), ("in_steps", 5), ("after", 1))}
    spans["in_steps"]["ranges_ns"] = {"diagnose.data_wait": 2 * 10**9}
    whole = {"wall_ns": 10 * 10**9, "first_seen": True, "ended": True, **spans}
    (run / "run-rank0.json").write_text(json.dumps(whole))
    return run


def test_the_goodput_of_a_run_is_that_of_its_process(tmp_path: Path) -> None:
    run = run_of_ten_seconds(tmp_path / "run")

    answer = json.loads(analyze(run, "--json").stdout)

    took = {part["what"]: part["time_s"] for part in answer["goodput"]["parts"] if part["time_s"]}
    assert took == {"productive": 3.0, "waiting for data": 2.0, "starting": 4.0, "idle": 1.0}
    assert answer["series"]["goodput"] is None
    assert "starting 40.0 %" in analyze(run).stdout


def test_the_goodput_of_an_earlier_process_is_not_that_of_a_run_that_was_killed(tmp_path: Path) -> None:
    run = run_of_ten_seconds(tmp_path / "run")
    log = run / "rank0.steps"
    log.write_text("".join(line for line in log.read_text().splitlines(True) if '"end"' not in line))

    answer = json.loads(analyze(run, "--json").stdout)

    assert answer["goodput"] is None
    assert answer["series"]["goodput"] is not None
