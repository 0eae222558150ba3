"""`diagnose tune` from end to end: real runs of small jobs."""

import functools
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
import tune_toys as toys
from needs import needs

from diagnose.commands.ledger import file
from diagnose.commands.tune.running import CapturedSteps, JobRuns

needs("torch")
pytestmark = [pytest.mark.capture, pytest.mark.long]


@pytest.mark.slow  # what is kept rests on how long the steps of real runs take
def test_a_slow_loader_gets_workers_unaided_and_a_kill_loses_no_finished_run(tmp_path: Path) -> None:
    body = toys.SLOW_LOADER + "train()\n"
    limits = ("--runs", "2", "--at-step", "24")  # behind the start of the workers, which takes many steps on busy cores
    killed = toys.started(tmp_path, body, *limits)
    state = tmp_path / "tune" / "tune.json"
    while not state.exists() and killed.poll() is None:
        time.sleep(0.05)
    killed.kill()
    killed.communicate(timeout=toys.PATIENCE_S)
    before = toys.climbed(tmp_path).rungs

    out = toys.ended(toys.started(tmp_path, body, *limits))  # the same command goes on

    first, workers = toys.climbed(tmp_path).rungs
    assert before == (first,)
    assert (workers.rule, workers.decision) == ("data-wait", "kept")
    assert workers.predicted is not None
    assert workers.achieved is not None
    assert workers.achieved[0] > 1
    promise = file.read(tmp_path / "data").predictions[0]
    assert (promise.rules, promise.source, promise.achieved[1]) == (
        ("data-wait",),
        "tune",
        pytest.approx(workers.achieved[1], rel=1e-4),
    )
    assert "keep      DataLoader(..., num_workers=" in out
    assert (tmp_path / "tune" / "tune.html").is_file()
    assert (tmp_path / "train.py").read_text() == body


def test_a_run_without_memory_is_told_by_the_words_of_its_log(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nraise torch.OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB')\n")
    ran = JobRuns([sys.executable, str(script)], os.environ, tmp_path, CapturedSteps())(1, {}, None, toys.PATIENCE_S)

    assert (ran.outcome, ran.because, ran.diagnosis) == ("oom", "out of memory", None)


def test_all_runs_that_are_compared_have_the_same_plan(tmp_path: Path) -> None:
    """What comes every so many steps, such as an evaluation, falls into one run as into the other."""
    toys.ended(toys.started(tmp_path, toys.SLOW_LOADER + "train()\n", "--runs", "2"))
    steps = [json.loads((tmp_path / "tune" / f"run-{n}" / "capture-rank0.json").read_text())["steps"] for n in (0, 1)]
    names = ("control_before_ns", "warmup_ns", "active_ns", "control_after_ns")

    assert [len(steps[0][name]) for name in names] == [len(steps[1][name]) for name in names]


def test_an_interrupt_ends_the_job_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = toys.started(tmp_path, toys.SAYS_ITS_ID + "import time\ntime.sleep(600)\n", "--runs", "2")
    job = toys.job_of(tmp_path, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=toys.PATIENCE_S)

    assert process.returncode == 130
    assert "interrupted; finished runs kept: 0; go on: diagnose tune --resume tune" in err
    with pytest.raises(ProcessLookupError):
        os.kill(job, 0)


@pytest.mark.slow
def test_a_healthy_job_is_left_alone_and_a_hang_up_that_is_ignored_ends_no_tune(tmp_path: Path) -> None:
    ignoring = functools.partial(signal.signal, signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    process = toys.started(tmp_path, toys.SAYS_ITS_ID + toys.HEALTHY, preexec_fn=ignoring)
    toys.job_of(tmp_path, process)
    process.send_signal(signal.SIGHUP)
    out = toys.ended(process)

    assert [rung.decision for rung in toys.climbed(tmp_path).rungs if rung.decision == "kept"] == []
    assert "nothing helped: " in out


def test_it_says_why_nothing_of_a_job_was_captured(tmp_path: Path) -> None:
    process = toys.started(tmp_path, "print('no training here')\n")
    _, err = process.communicate(timeout=toys.PATIENCE_S)

    assert process.returncode == 3
    assert "nothing was captured: no Python process of the command imported torch" in err


def test_a_job_that_fails_by_itself_is_not_tuned(tmp_path: Path) -> None:
    process = toys.started(tmp_path, "raise ValueError('no such file: data.bin')\n")
    _, err = process.communicate(timeout=toys.PATIENCE_S)

    assert process.returncode == 3
    assert "the job as it is cannot be measured" in err
    assert "it ended with 1: ValueError: no such file: data.bin" in err


def test_a_first_run_that_hangs_ends_at_the_limit(tmp_path: Path) -> None:
    process = toys.started(tmp_path, "import time\ntime.sleep(600)\n", "--run-limit", "1s")
    _, err = process.communicate(timeout=toys.PATIENCE_S)

    assert process.returncode == 3
    assert "it did not end within 1 s" in err
