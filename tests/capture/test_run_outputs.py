"""Where the report of `diagnose run` goes, and that the command's own output stays what the command wrote."""

import json
import os
import pty
import shlex
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from capture.command_runs import PATIENCE_S, WRITES, Start, ended, script

from diagnose.diagnosis import Diagnosis

LINES = "".join(json.dumps({"step": k, "loss": 1 / (k + 1), "raw": "\x1b[1m\r\0é"}) + "\n" for k in range(2000))
PRINTS = WRITES + f"import sys\nwrite(0)\nsys.stdout.write({LINES!r}); sys.stdout.flush()\nos.write(1, b'\\xff end')"
RUN = shlex.join([sys.executable, "-m", "diagnose", "run"])


@pytest.mark.parametrize("options", ["", "--html r.html", "--no-report --json d.json"])
def test_a_file_gets_what_the_job_wrote_byte_for_byte(tmp_path: Path, options: str) -> None:
    job = shlex.join([sys.executable, script(tmp_path, PRINTS)])
    command = f"{RUN} {options} -- {job} > out.txt"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, timeout=PATIENCE_S, capture_output=True)

    assert (tmp_path / "out.txt").read_bytes() == LINES.encode() + b"\xff end"


def test_a_pipe_of_json_lines_stays_one(start: Start, tmp_path: Path) -> None:
    _, out, err = ended(start("--", script(tmp_path, WRITES + "write(0); print(json.dumps({'loss': 0.5}))")))

    assert [json.loads(line) for line in out.splitlines()] == [{"loss": 0.5}]
    assert "\nverdict   data-bound" in err


def shown_on_terminal(tmp_path: Path, *options: str, stderr: int | None = None) -> str:
    """What a terminal shows of the run; its stderr too, unless that goes elsewhere."""
    ours, theirs = pty.openpty()
    command = [*shlex.split(RUN), *options, "--", script(tmp_path, WRITES + "write(0)")]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs if stderr is None else stderr
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0
    return shown.decode()


def test_a_terminal_shows_the_report_on_stdout(tmp_path: Path) -> None:
    with open(tmp_path / "err.txt", "wb") as file:
        shown = shown_on_terminal(tmp_path, stderr=file.fileno())

    assert "verdict   " in shown
    assert "verdict   " not in (tmp_path / "err.txt").read_text()
    assert (tmp_path / "err.txt").read_text().startswith("diagnose: data-bound; ")


def test_the_last_line_says_verdict_next_change_and_where_the_report_is(start: Start, tmp_path: Path) -> None:
    body = WRITES + "write(0); import sys, time; time.sleep(1); print('trained', file=sys.stderr)"
    _, _, err = ended(start("--out", "b", "--html", "r.html", "--", script(tmp_path, body)))

    assert err.splitlines()[-1] == (
        "diagnose: data-bound; set num_workers=4, persistent_workers=True of the DataLoader (about 1.7x); "
        "report: b/report.txt, r.html"
    )


def test_every_file_that_is_asked_for_is_written(start: Start, tmp_path: Path) -> None:
    options = ["--report", "r.txt", "--html", "r.html", "--markdown", "r.md", "--json", "d.json"]
    code, out, err = ended(start(*options, "--", script(tmp_path, WRITES + "write(0)")))

    assert (code, out) == (0, "")
    assert err.splitlines()[0] == "diagnose: wrote r.txt, r.html, r.md, d.json"
    assert err.splitlines()[1].endswith("/report.txt, r.txt, r.html, r.md, d.json")
    assert len(err.splitlines()) == 2
    assert (tmp_path / "r.txt").read_text().startswith("verdict   data-bound")
    assert "\x1b" not in (tmp_path / "r.txt").read_text()
    assert "diagnose run --report r.txt" in (tmp_path / "r.html").read_text()
    assert "data-bound" in (tmp_path / "r.md").read_text()
    jsonschema.validate(json.loads((tmp_path / "d.json").read_text()), Diagnosis.schema())


def test_without_a_report_the_json_file_is_written_all_the_same(start: Start, tmp_path: Path) -> None:
    _, out, err = ended(start("--no-report", "--json", "d.json", "--", script(tmp_path, WRITES + "write(0)")))

    assert (out, "verdict   " in err) == ("", False)
    assert json.loads((tmp_path / "d.json").read_text())["verdict"]["class"] == "data-bound"


@pytest.mark.parametrize(
    "option",
    [
        "--report",
        pytest.param("--html", marks=pytest.mark.slow),
        pytest.param("--markdown", marks=pytest.mark.slow),
        "--json",
    ],
)
def test_a_file_that_cannot_be_written_costs_that_file_only(start: Start, tmp_path: Path, option: str) -> None:
    options = [option, "no/file", *(["--json", "d.json"] if option != "--json" else [])]
    code, _, err = ended(start(*options, "--", script(tmp_path, WRITES + "write(0); raise SystemExit(3)")))

    assert code == 3
    assert err.count(f"diagnose: no {option} file: No such file or directory") == 1
    assert (tmp_path / "d.json").exists() is (option != "--json")
    assert "no/file" not in err.splitlines()[-1]


@pytest.mark.parametrize("option", ["--report", "--html", "--markdown", "--json"])
def test_nothing_is_written_among_the_output_of_the_command(start: Start, tmp_path: Path, option: str) -> None:
    code, out, err = ended(start(option, "-", "--", script(tmp_path, "print('ran')")))

    assert (code, out) == (2, "")
    assert "standard output is the command's own: name a file" in err


def test_the_page_names_no_argument_of_the_command(start: Start, tmp_path: Path) -> None:
    job = script(tmp_path, WRITES + "write(0)")
    ended(start("--html", "r.html", "--", job, "--token", "hf_secret"))

    assert "diagnose run --html r.html -- ..." in (tmp_path / "r.html").read_text()
    assert "hf_secret" not in (tmp_path / "r.html").read_text()
