"""What tells the states of a rank apart, and what a view says of files that are damaged, missing or not ours."""

import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from armed_folders import armed_folder
from armed_runs import Run
from click.testing import CliRunner
from over_all import over_all

from diagnose.cli import main
from diagnose.commands.watch.glances import Glances
from diagnose.commands.watch.lines import one_line, progress
from diagnose.commands.watch.states import GIVEN_UP_S, LEFT_ALONE_S, is_over, state_of
from diagnose.commands.watch.step_logs import SeenLog, StepLogs
from diagnose.probes.protocol import BY_TRAINER, SCRATCH
from diagnose.series.timing_log import read_timing_log

HERE, ELSEWHERE = platform.node(), "another-host"
BEGINS: dict[str, object] = {"armed": 1, "t": 1.0, "rank": 0, "world_size": 1, "done": 0}
END: dict[str, object] = {"what": "end", "t": 9.0, "why": "the loop ended"}


def block(first: int, count: int, us: int = 10_000, t: float = 2.0) -> dict[str, object]:
    return {"s": first, "us": [us] * count, "t": t}


def reading(step: int, over_s: float) -> dict[str, object]:
    return {"gauges": {}, "rates": {}, "step": step, "t": 1.0, "over_s": over_s}


def write(folder: Path, *lines: dict[str, object], rank: int = 0, host: str = HERE, **begins: Any) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"rank{rank}.steps"
    told = [BEGINS | {"rank": rank, "host": host} | begins, *lines]
    path.write_text("".join(json.dumps(line) + "\n" for line in told))
    return path


def seen(path: Path, quiet_s: float, written: bool | None) -> SeenLog:
    log = read_timing_log(path)
    return SeenLog(path=path, rank=0, log=log, problem="", quiet_s=quiet_s, is_written=written)


STANDS = [reading(40, 2.0), *[reading(40, 100.0)] * 4]


@pytest.mark.parametrize(
    ("lines", "host", "quiet_s", "written", "tidied", "state"),
    [
        ([block(1, 40)], HERE, 1, True, False, "running"),
        ([block(1, 40)], ELSEWHERE, 1, False, False, "running"),
        ([block(1, 40)], ELSEWHERE, 1, None, False, "running"),
        ([block(1, 40)], HERE, 1, False, False, "killed"),
        ([block(1, 40)], ELSEWHERE, 1, False, True, "killed"),
        ([block(1, 40)], HERE, 1, True, True, "running"),
        ([block(1, 40)], HERE, 31, True, False, "silent"),
        ([block(1, 40)], ELSEWHERE, 31, False, False, "silent"),
        ([block(1, 40), reading(40, 64)], ELSEWHERE, 31, False, False, "running"),
        ([block(1, 40), *STANDS], HERE, 1, True, False, "standing"),
        ([block(1, 40), *STANDS, block(41, 1)], HERE, 1, True, False, "running"),
        ([block(1, 40), END], HERE, 5000, False, True, "ended"),
        ([block(1, 40), END, BEGINS, block(41, 2)], HERE, 1, True, False, "running"),
    ],
)
def test_the_log_and_who_holds_it_tell_the_state(
    lines: list[dict[str, object]],
    host: str,
    quiet_s: float,
    written: bool | None,
    tidied: bool,
    state: str,
    tmp_path: Path,
) -> None:
    lines = [line | ({"host": host} if "armed" in line else {}) for line in lines]
    of = seen(write(tmp_path / "run", *lines, host=host), quiet_s, written)
    assert of.log is not None

    assert state_of(of, of.log, 0.01, tidied)[0] == state


@over_all(
    "state, quiet_s, written, run_time, tidied, over",
    [
        ("running", 1e9, None, True, True, False),
        ("killed", 0, False, False, False, True),
        ("ended", 0, False, False, True, True),
        ("ended", 0, False, True, False, True),
        ("ended", 0, False, False, False, False),
        ("ended", LEFT_ALONE_S + 1, False, False, False, True),
        ("silent", GIVEN_UP_S - 1, False, False, False, False),
        ("silent", GIVEN_UP_S + 1, False, False, False, True),
        ("silent", GIVEN_UP_S + 1, True, False, False, False),
    ],
)
def test_a_view_goes_on_as_long_as_something_may_come(
    state: Any, quiet_s: float, written: bool | None, run_time: bool, tidied: bool, over: bool
) -> None:
    of = SeenLog(path=Path("rank0.steps"), rank=0, log=None, problem="", quiet_s=quiet_s, is_written=written)

    assert is_over(of, state, run_time, tidied) is over


def test_a_log_that_grows_is_not_silent_whatever_the_clocks_say(tmp_path: Path) -> None:
    now = [100.0]
    path = write(tmp_path / "run", block(1, 40))
    logs = StepLogs(tmp_path / "run", lambda: now[0])
    os.utime(path, (4e9, 4e9))

    [first] = logs.read()
    now[0] += 50
    [still] = logs.read()
    path.write_text(path.read_text() + json.dumps(block(41, 2)) + "\n")
    os.utime(path, (1.0, 1.0))
    [grown] = logs.read()

    assert (first.quiet_s, still.quiet_s, grown.quiet_s) == (0, 50, 0)
    assert "ahead of this machine's clock" in first.problem
    assert grown.log is not None
    assert grown.log.step == 42


@pytest.mark.capture
def test_a_trainer_says_how_many_steps_there_are_and_the_rest_follows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    run = Run(tmp_path / "run")
    with run._as_rank():
        run.session.loop_begins(BY_TRAINER, total=80, done=20)
    run.steps(range(21, 92)).look()  # the last of them are only noted yet
    path = run.folder / "rank0.steps"
    path.write_text(path.read_text().replace(f'"host":"{HERE}"', f'"host":"{ELSEWHERE}"'))  # a lock is no process's own
    step, told = read_timing_log(path).step, progress(Glances(run.folder).take())
    run.end()

    assert step > 80
    assert told == f"step {step} of 100 ({step}.0 %), about {(100 - step) / 10} s left"
    assert progress(Glances(run.folder).take()) == "step 91 of 100 (91.0 %)"


def test_a_loop_of_unknown_length_has_no_time_left(tmp_path: Path) -> None:
    view = Glances(write(tmp_path / "run", block(1, 40), END).parent).take()

    assert progress(view) == "step 40"
    assert not view.fact("left").known


def test_the_rank_that_ends_a_step_last_comes_first(tmp_path: Path) -> None:
    for rank, t in enumerate((2.0, 2.3, 2.1)):
        write(tmp_path / "run", block(1, 40, t=t), rank=rank, world_size=4)
    view = Glances(tmp_path / "run").take()

    assert [one.rank for one in view.ranks] == [1, 2, 0]
    assert [round(one.late_s or 0, 3) for one in view.ranks] == [0.3, 0.1, 0.0]
    assert view.missing == (3,)


def watched(run: Path) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["watch", str(run), "--once"], env={"COLUMNS": "200"})
    return done.exit_code, " ".join((done.stdout + done.stderr).split())


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-7]), "1 unreadable line left out"),
    "noise": (lambda path: path.write_bytes(bytes(range(256)) * 9), "rank1.steps: no loop begins in it"),
    "empty": (lambda path: path.write_bytes(b""), "rank1.steps: no loop begins in it"),
    "missing": (lambda path: path.unlink(), "without a step log: 1"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "without a step log: 1"),
    "another's": (lambda path: path.write_text('{"us": "none"}\n[1]\nnull\n'), "rank1.steps: no loop begins in it"),
    "huge numbers": (
        lambda path: path.write_text(path.read_text() + '{"s":1e400,"us":[1],"t":-1e300}\n{"what":"window"}\n'),
        "1 unreadable line left out",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_of_damaged_files_the_rest_is_told_and_what_is_wrong(damage: str, tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[], ranks=2)
    spoil, says = DAMAGES[damage]
    spoil(run / "rank1.steps")

    code, page = watched(run)

    assert code == 0
    assert says in page
    assert "step 40" in page


def test_a_log_that_goes_away_keeps_what_was_read(tmp_path: Path) -> None:
    run = armed_folder(tmp_path / "run", windows=[])
    glances = Glances(run)
    (run / "rank0.steps").unlink()

    view = glances.take()

    assert view.step == 40
    assert view.problems == ("rank0.steps: No such file or directory",)


@pytest.mark.parametrize(
    ("made", "code", "says"),
    [
        ([], 3, "it holds no step log"),
        (["capture-rank0.json"], 3, "it is a capture of one window"),
        ([f"{SCRATCH}/owner"], 0, "waiting: no training loop has begun"),
    ],
)
def test_a_folder_without_a_log_is_waited_for_only_where_one_may_come(
    made: list[str], code: int, says: str, tmp_path: Path
) -> None:
    for name in made:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")

    assert watched(tmp_path)[0] == code
    assert says in watched(tmp_path)[1]


def test_what_a_log_says_drives_no_terminal(tmp_path: Path) -> None:
    told = {"what": "window", "t": 1.0, "first": 7, "why": "\x1b[2Jcleared"}
    run = write(tmp_path / "run", block(1, 40), told, {**END, "why": "\x1b]0;title\x07"}).parent

    code, page = watched(run)

    assert code == 0
    assert "\x1b" not in page + one_line(Glances(run).take())
    assert "\\x1b[2Jcleared" in page
