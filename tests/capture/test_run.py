"""`diagnose run`: the command runs as it does without us, and the report comes when the window is written."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import jsonschema
import pytest
from capture.command_runs import PATIENCE_S, WRITES, Start, bundles, ended, script, until

from diagnose.diagnosis import Diagnosis


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("print('out')", 0),
        ("raise SystemExit(3)", 3),
        ("raise ValueError('x')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 143),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_the_exit_code_is_the_commands_own(start: Start, tmp_path: Path, body: str, code: int) -> None:
    assert ended(start("--", script(tmp_path, body)))[0] == code


def test_the_streams_and_the_arguments_are_the_commands_own(start: Start, tmp_path: Path) -> None:
    body = "import sys; print(sys.argv, sys.stdin.read()); print('warning', file=sys.stderr)"
    process = start("--", script(tmp_path, body), "--out", "x", "--", "-h", stdin=subprocess.PIPE)
    out, err = process.communicate("typed", timeout=PATIENCE_S)

    assert out == "['train.py', '--out', 'x', '--', '-h'] typed\n"
    assert err.splitlines()[0] == "warning"


def test_nothing_captured_is_said_in_one_line_and_leaves_no_folder(start: Start, tmp_path: Path) -> None:
    code, out, err = ended(start("--", script(tmp_path, "")))

    assert (code, out) == (0, "")
    assert err == "diagnose: nothing captured: no Python process of the command imported torch\n"
    assert not (tmp_path / "diagnose-runs").exists()


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["python", "-c", ""], "imported torch"),
        ([sys.executable, "-I", "-c", ""], "Python runs with -I"),
        (["sh", "-c", "env -u PYTHONPATH true"], "no Python process of the command could be hooked"),
        ([sys.executable, "-c", "import torch"], "no window of steps was reached"),
    ],
)
def test_why_nothing_was_captured(start: Start, tmp_path: Path, command: Sequence[str], says: str) -> None:
    (tmp_path / "stand-in").mkdir()
    (tmp_path / "stand-in" / "torch.py").touch()
    _, _, err = ended(start("--", *command, env={"PYTHONPATH": str(tmp_path / "stand-in")}))

    assert says in err.splitlines()[-1]


def test_the_report_is_printed_while_the_job_goes_on(start: Start, tmp_path: Path) -> None:
    wait = "\nimport time\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('trained')"
    body = WRITES + "write(0)" + wait + "\nprint('trained', file=sys.stderr)"
    process = start("--json", "d.json", "--", script(tmp_path, "import sys\n" + body))
    until((tmp_path / "d.json").exists, process)
    (tmp_path / "go").touch()
    code, out, err = ended(process)

    [bundle] = bundles(tmp_path)
    assert (code, out) == (0, "trained\n")
    assert "\nverdict   data-bound" in err
    assert err.splitlines()[-4] == f"report    {bundle.relative_to(tmp_path)}/report.txt"
    assert {*err.splitlines()[-3:-1]} == {"diagnose: wrote d.json", "trained"}  # the job goes on as soon as it is there
    jsonschema.validate(json.loads((tmp_path / "d.json").read_text()), Diagnosis.schema())
    assert {path.name for path in bundle.iterdir()} == {"rank0.json.gz", "rank0.done", "diagnosis.json", "report.txt"}


def test_a_job_that_fails_after_the_window_still_gets_its_report(start: Start, tmp_path: Path) -> None:
    code, _, err = ended(start("--", script(tmp_path, WRITES + "write(0); raise SystemExit(9)")))

    assert code == 9
    assert "verdict   " in err


def test_ranks_that_never_came_are_named(start: Start, tmp_path: Path) -> None:
    _, _, err = ended(start("--", script(tmp_path, WRITES + "write(1, 4); write(2, 4)")))

    assert "verdict   " in err
    assert err.startswith("diagnose: no trace of rank 0, 3 of 4\n")


def test_a_trace_without_its_marker_is_not_lost(start: Start, tmp_path: Path) -> None:
    body = WRITES + "write(0); os.remove(os.path.join(out, 'rank0.done'))"

    assert "verdict   " in ended(start("--", script(tmp_path, body)))[2]


def test_later_windows_are_mentioned_and_the_first_is_reported(start: Start, tmp_path: Path) -> None:
    _, _, err = ended(start("--", script(tmp_path, WRITES + "write(0, out=out + '-2'); write(0)")))

    assert err.count("verdict   ") == 1
    assert [err.splitlines()[-2]] == [
        f"diagnose: more windows, for `diagnose analyze`: {b.relative_to(tmp_path)}" for b in bundles(tmp_path)[1:]
    ]


def test_a_capture_that_failed_says_why_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    body = (
        WRITES
        + """
open(os.path.join(out, ".diagnose", "rank0.claim"), "w").close()
with open(os.path.join(out, "rank0.done"), "w") as file:
    json.dump({"rank": 0, "world_size": 1, "trace": None, "capture": None, "error": "the disk is full"}, file)
"""
    )
    code, out, err = ended(start("--", script(tmp_path, body)))

    assert (code, out, err) == (0, "", "diagnose: nothing captured: the disk is full\n")
    assert [path.name for path in bundles(tmp_path)[0].iterdir()] == ["rank0.done"]


def test_a_trace_that_cannot_be_read_costs_the_report_only(start: Start, tmp_path: Path) -> None:
    body = WRITES + "write(0); open(os.path.join(out, 'rank0.json.gz'), 'w').close(); raise SystemExit(4)"
    code, out, err = ended(start("--", script(tmp_path, body)))

    assert (code, out) == (4, "")
    assert err.startswith("diagnose: no report: ")
    assert "Traceback" not in err


def test_an_unwritable_json_file_costs_that_file_only(start: Start, tmp_path: Path) -> None:
    code, _, err = ended(start("--json", "no/d.json", "--", script(tmp_path, WRITES + "write(0)")))

    assert code == 0
    assert "verdict   " in err
    assert err.count("diagnose: no --json file: ") == 1
    assert "wrote" not in err


def test_no_report_says_where_the_bundle_is(start: Start, tmp_path: Path) -> None:
    _, out, err = ended(start("--no-report", "--out", "b", "--", script(tmp_path, WRITES + "write(0)")))

    assert (out, err) == ("", "diagnose: captured into b\n")


def test_a_bundle_is_never_written_into_twice(start: Start, tmp_path: Path) -> None:
    for expected in ("b", "b-2", "b-3"):
        _, _, err = ended(start("--no-report", "--out", "b", "--", script(tmp_path, WRITES + "write(0)")))

        assert err == f"diagnose: captured into {expected}\n"


def test_without_a_folder_the_job_runs_uncaptured(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    body = "import os; print('PYTHON_DIAGNOSE' in os.environ)"
    code, out, err = ended(start("--out", "file/b", "--", script(tmp_path, body)))

    assert (code, out) == (0, "False\n")
    assert err.startswith("diagnose: capture is off: ")
    assert err.endswith("; the job runs without: pass --out DIR, where it may write\n")


@pytest.mark.parametrize(
    ("command", "code"), [("not-there", 127), ("./not-there", 127), (".", 126), ("./not-executable", 126)]
)
def test_a_command_that_cannot_run_ends_as_in_a_shell(start: Start, tmp_path: Path, command: str, code: int) -> None:
    (tmp_path / "not-executable").touch(mode=0o644)
    ending, out, err = ended(start("--", command))

    assert (ending, out) == (code, "")
    assert err.startswith(f"Error: cannot run the command: {command}\n  why: ")
    assert not bundles(tmp_path)


def test_a_shell_script_without_an_interpreter_line_runs_as_in_a_shell(start: Start, tmp_path: Path) -> None:
    (tmp_path / "job").write_text("echo $1\n")
    (tmp_path / "job").chmod(0o755)

    assert ended(start("--", "./job", "hello"))[1] == "hello\n"


def test_wrong_usage_runs_nothing(start: Start) -> None:
    for args in ([], ["--steps", "0", "--", "true"], ["--sterps", "3", "true"]):
        assert ended(start(*args))[0] == 2


def test_only_the_parent_of_rank_0_speaks(start: Start, tmp_path: Path) -> None:
    meet = (
        "import time\nrank = int(os.environ['SLURM_PROCID'])\nopen(f'begun{rank}', 'w').close()\n"
        "while not os.path.exists(f'begun{1 - rank}'): time.sleep(0.01)\n"
    )
    body = WRITES + meet + "time.sleep(rank)\nwrite(rank, 2)"
    script(tmp_path, body)
    shared = {"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    parents = [start("--", "train.py", env=shared | {"SLURM_PROCID": str(rank)}) for rank in (0, 1)]
    (_, _, err), second = [ended(parent) for parent in parents]

    assert second == (0, "", "")
    assert "rank 1" in err or "2 ranks" in err
    assert [path.name for path in bundles(tmp_path)] == ["job-17.0"]
