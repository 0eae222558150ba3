"""What a rank tells the `diagnose run` above it while its loop runs, read as that reads it."""

import ctypes
import json
import os
import platform
from pathlib import Path
from types import SimpleNamespace

import pytest
from armed_runs import NoThread, Run

from diagnose.capture.standstill import RankPulse, pulses
from diagnose.probes.config import Config
from diagnose.probes.protocol import CONFIG, SCRATCH
from diagnose.probes.timing import pulse
from diagnose.probes.timing import session as armed_session


def told(folder: Path) -> list[RankPulse]:
    return pulses(folder / SCRATCH, platform.node(), os.getppid())


def test_a_rank_tells_its_steps_and_their_usual_time_while_its_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(armed_session, "Background", NoThread)
    run = Run(tmp_path, rank=1, looked_at_by=pulse.name_of(os.getppid())).begin(done=10).steps(range(1, 6))
    run.look()
    within = told(tmp_path)
    run.end()

    assert within == [RankPulse(1, os.getpid(), 15, 0.1)]
    assert told(tmp_path) == [RankPulse(1, os.getpid(), None, 0.0)]


@pytest.mark.parametrize(("pulse_asked", "reads_stacks"), [(True, False), (False, True)])
def test_only_who_reads_stacks_is_allowed_to_look_into_the_process(
    pulse_asked: bool, reads_stacks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / SCRATCH).mkdir()
    allowed: list[object] = []
    monkeypatch.setattr(pulse, "_allow", allowed.append)
    parent = pulse.name_of(os.getppid()) if reads_stacks else None

    beats = pulse.pulse_of(Config(str(tmp_path), looked_at_by=parent, pulse=pulse_asked), 0)

    assert beats is not None
    beats.beat(7)
    assert (told(tmp_path), allowed) == ([RankPulse(0, os.getpid(), 7, 0.0)], [parent] if parent else [])
    beats.close()
    assert pulse.pulse_of(Config(str(tmp_path)), 0) is None


def test_a_rank_of_several_tells_where_it_is_before_its_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / SCRATCH).mkdir()
    monkeypatch.setenv(CONFIG, Config(str(tmp_path), looked_at_by=pulse.name_of(os.getppid())).to_json())
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    pulse.arm()

    assert told(tmp_path) == [RankPulse(3, os.getpid(), None, 0.0)]


@pytest.mark.parametrize(("age", "left"), [(0, True), (1, False)])
def test_a_helper_of_a_rank_leaves_the_file_to_the_rank_while_that_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: int, left: bool
) -> None:
    """The parent of the test is the rank, or a process that had its number before."""
    file = tmp_path / SCRATCH / "rank0.pulse"
    file.parent.mkdir()
    name = pulse.name_of(os.getppid())
    rank = {**name, "started": name["started"] - age, "step": 7}
    file.write_text(json.dumps(rank))
    monkeypatch.setenv(CONFIG, Config(str(tmp_path), looked_at_by=pulse.name_of(os.getppid())).to_json())
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    pulse.arm()

    assert (json.loads(file.read_text()) == rank) == left


def test_where_nobody_looks_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(armed_session, "Background", NoThread)
    Run(tmp_path).begin().steps(range(1, 6)).look()

    assert list((tmp_path / SCRATCH).glob("*.pulse")) == []


def test_a_folder_that_is_not_there_costs_the_stacks_and_not_the_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert pulse.pulse_of(Config(str(tmp_path / "gone"), looked_at_by=pulse.name_of(1)), 0) is None
    assert "nobody sees it if the job hangs: FileNotFoundError" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("other", "allowed"), [({}, True), ({"host": "node-b"}, False), ({"started": 0}, False), ({"pid": 1 << 30}, False)]
)
def test_the_process_of_that_number_on_another_host_may_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, object], allowed: bool
) -> None:
    (tmp_path / SCRATCH).mkdir()
    called = list[int]()
    libc = SimpleNamespace(prctl=lambda what, who, *_: called.append(who.value))
    monkeypatch.setattr(ctypes, "CDLL", lambda name: libc)
    found = pulse.pulse_of(Config(str(tmp_path), looked_at_by={**pulse.name_of(os.getppid()), **other}), 0)

    assert called == ([os.getppid()] if allowed else [])
    assert found is not None
    found.close()
