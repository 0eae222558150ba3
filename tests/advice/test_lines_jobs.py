"""Real jobs whose report names the line that takes the time, what it calls, and the phase that comes again."""

import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding, UserFunction

pytestmark = [pytest.mark.capture, pytest.mark.slow]
JOBS = Path(__file__).parent / "jobs"
PATIENCE_S = 300


def diagnosed(folder: Path, job: str) -> Diagnosis:
    """The diagnosis of a run of the job by `diagnose run`."""
    command = [sys.executable, "-m", "diagnose", "run", "--no-ledger", "--stop", "--out", "capture", "--"]
    command += [sys.executable, str(JOBS / job)]
    subprocess.run(command, cwd=folder, check=True, timeout=PATIENCE_S, capture_output=True)
    return analyze(folder / "capture")


def fact(diagnosis: Diagnosis, name: str) -> object:
    return next(each.value for each in diagnosis.facts if each.name == name)


def most(diagnosis: Diagnosis, doing: str) -> UserFunction:
    """The function with most time of its own that does this."""
    assert diagnosis.user_code is not None
    return next(each for each in diagnosis.user_code.functions if each.doing == doing)


def test_a_rollout_every_sixteen_steps_leads_with_its_share_of_the_run_and_its_line(tmp_path: Path) -> None:
    needs("torch")
    diagnosis = diagnosed(tmp_path, "periodic_phase.py")

    found: Finding = next(each for each in diagnosis.findings if each.rule == "periodic-phase")
    assert fact(diagnosis, "slow_phase_every_steps") == 16
    assert 0.4 < float(str(fact(diagnosis, "slow_phase_run_share"))) < 0.8
    assert (found.where[0].function, found.where[0].line) == ("rollout", 20)
    assert found.predicted_speedup is not None
    of_others = [each.predicted_speedup for each in diagnosis.plan if each.rule == "cpu-optimizer"]
    assert all(gain[1] is not None and gain[1] < 1.7 for gain in of_others if gain)


def test_preprocessing_that_a_library_does_counts_for_the_line_that_calls_it(tmp_path: Path) -> None:
    needs("torch", "transformers")
    diagnosis = diagnosed(tmp_path, "processor_in_the_loop.py")

    work = most(diagnosis, "step")
    assert work.function == "train"
    assert "whisper" in work.calls or "audio_utils" in work.calls
    assert "python-host" not in {each.what for each in diagnosis.not_advised}


def test_a_metric_in_a_callback_is_named_below_the_trainers_loop(tmp_path: Path) -> None:
    needs("torch", "transformers", "accelerate")
    diagnosis = diagnosed(tmp_path, "metric_in_callback.py")

    assert most(diagnosis, "step").function == "on_step_end"
    assert "python-host" not in {each.what for each in diagnosis.not_advised}


def test_a_slow_transform_is_named_below_the_trainers_loop(tmp_path: Path) -> None:
    needs("torch", "transformers", "accelerate")
    diagnosis = diagnosed(tmp_path, "slow_transform.py")

    assert most(diagnosis, "loading").function == "__call__"
