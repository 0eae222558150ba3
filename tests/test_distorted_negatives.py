"""What shares of a step say against a change, where the profiler made that step much longer."""

from pathlib import Path

from kineto import Trace
from whatif.predicted import device_bound_step, saved, steps

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis


def step(job: Trace) -> None:
    """10 ms on the device, before which the loader takes 50 us."""
    job.loader(ms=0.05)
    device_bound_step(job)
    job.item()


def profiled(folder: Path, times_as_long: float) -> Diagnosis:
    """Such steps, whose unprofiled ones are so much shorter; a hundredth of the tokens is padding."""
    record: dict[str, object] = {"overhead_factor": times_as_long, "batch": {"padding_share": 0.01}}
    return analyze(saved(folder, steps(step), record=record))


WAITING = "is waiting for the next batch"


def not_judged(found: Diagnosis) -> dict[str, str]:
    return {entry.rule: entry.because for entry in found.not_judged}


def because(found: Diagnosis) -> list[str]:
    return [entry.because for entry in found.not_advised]


def test_a_distorted_step_does_not_speak_against_loader_workers(tmp_path: Path) -> None:
    found = profiled(tmp_path, 3.4)

    assert not [sentence for sentence in because(found) if WAITING in sentence]
    assert "profiled steps take 3.40x the time of unprofiled ones" in not_judged(found)["data-wait"]


def test_a_step_slowed_by_half_still_does(tmp_path: Path) -> None:
    found = profiled(tmp_path, 1.5)

    assert [sentence for sentence in because(found) if WAITING in sentence]
    assert "data-wait" not in not_judged(found)


def test_what_is_no_share_of_the_step_still_speaks(tmp_path: Path) -> None:
    assert "1.0 % of the tokens are padding" in because(profiled(tmp_path, 3.4))
