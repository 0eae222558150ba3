"""`diagnose run --nsys` of several ranks, each under its own nsys: rank 0 waits for all exports, and reports once."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest
from nsys_exports import training_export

from diagnose.capture.bundle import Bundle
from diagnose.commands.run import command as run
from diagnose.commands.run import nsight, reporter
from diagnose.commands.run.outputs import Outputs
from diagnose.diagnosis import Diagnosis

SLURM = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}


class PlayedClock:
    """Time that passes only while one sleeps; `then` is called at each waking, with how often one has slept."""

    def __init__(self, then: Callable[[int], object] = lambda times: None) -> None:
        self.now, self.times, self.then = 0.0, 0, then

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now, self.times = self.now + seconds, self.times + 1
        self.then(self.times)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(nsight, "say", lines.append)
    return lines


def parents(folder: Path) -> tuple[Bundle, Bundle]:
    """Those of rank 0, whose export is there, and of rank 1."""
    of_0, of_1 = (Bundle(folder / "out", {**SLURM, "SLURM_PROCID": rank}) for rank in "01")
    training_export(of_0.folder / "nsight-rank0.sqlite")
    return of_0, of_1


def test_rank_0_waits_for_the_exports_of_the_others_and_keeps_the_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    of_0, of_1 = parents(tmp_path)
    kept: list[Diagnosis] = []
    monkeypatch.setattr(reporter, "record", kept.append)

    def of_the_other(times: int) -> None:
        if times == 3:  # nsys writes it from here on
            training_export(of_1.folder / "nsight-rank1.sqlite")
        if times == 5:
            of_1.tidy()

    clock = PlayedClock(of_the_other)
    monkeypatch.setattr(nsight, "time", clock)
    reports = reporter.Reporter(of_0, Outputs({}, False, ""), no_ledger=False)
    nsight.nsight_words(of_0, reports)

    assert (clock.times, said) == (5, [])
    (diagnosis,) = kept
    assert [Path(file).name for file in diagnosis.trace.files] == ["nsight-rank0.sqlite", "nsight-rank1.sqlite"]
    assert reports.told.startswith("data-bound")


def test_it_does_not_wait_for_ever_and_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    of_0, _of_1 = parents(tmp_path)
    clock = PlayedClock()
    monkeypatch.setattr(nsight, "time", clock)
    nsight.nsight_words(of_0, None)

    assert reporter.WAIT_FOR_PARENTS_S <= clock.now < reporter.WAIT_FOR_PARENTS_S + 1
    assert said[0] == "1 of 2 exports came: nsight-rank0.sqlite"
    assert said[1].startswith("captured into ")


def test_one_run_alone_waits_for_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: list[str]) -> None:
    alone = Bundle(tmp_path / "out", {})
    clock = PlayedClock()
    monkeypatch.setattr(nsight, "time", clock)
    nsight.nsight_words(alone, None)

    assert clock.now == 0
    assert said[0].startswith("nsys left no export")


def test_a_command_line_that_is_too_long_for_a_capture_runs_without_nsys(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []

    def job(argv: list[str], env: dict[str, str]) -> str:
        started.append((argv, env))
        if len(started) == 1:
            raise OSError(errno.E2BIG, "Argument list too long")
        return "the job"

    monkeypatch.setattr(run, "RunningCommand", job)
    monkeypatch.setattr(run, "say", lambda line: None)
    captured, alone = (["nsys", "profile", "train.py"], {"OURS": "1"}), (["train.py"], {})

    assert run._started(captured, alone, None, None) == ("the job", None)
    assert started == [captured, alone]
