"""What shortens the stalls that a log explains: in the words of its writer, with its gain over the run."""

from pathlib import Path

import pytest

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.commands.series.views import head
from diagnose.series import read_runs

STEP_S, STEPS = 10, 60


def titan(folder: Path, event: str, took: float, every: int) -> SeriesReport:
    """A log of torchtitan with an event of so many seconds after each `every` steps."""
    at, lines = 0.0, []
    for step in range(1, STEPS + 1):
        at += STEP_S
        lines.append(f"{_time(at)} - root - INFO - step: {step:2d}  loss:  7.1  memory: 49.66GiB(52.28%)  tps: 5,851")
        if step % every == 0:
            at += took
            lines.append(f"{_time(at)} - root - INFO - {event}")
    path = folder / "train.log"
    path.write_text("\n".join(lines))
    return judged(read_runs([path]))


def _time(at: float) -> str:
    hours, rest = divmod(int(at), 3600)
    return f"[rank0]:[titan] 2025-06-16 {12 + hours}:{rest // 60:02d}:{rest % 60:02d},{int(at * 1000) % 1000:03d}"


SAVED = "Finished saving the checkpoint (or staging if async is enabled)in 30.00 seconds."


def test_saving_names_the_asynchronous_one_first_with_its_gain(tmp_path: Path) -> None:
    """Five of 30 s within 60 steps of 10 s, the last of which no step follows: 150 of 740 s."""
    report = titan(tmp_path, SAVED, 30, 10)
    (remedy,) = report.remedies
    first = remedy.options[0]

    assert (remedy.kind, remedy.count, remedy.every_steps) == ("checkpoint", 5, 10)
    assert remedy.time_s == pytest.approx(150, abs=1)
    assert first.do == 'checkpoint.async_mode = "async_with_pinned_mem"'
    assert first.gain == (1.0, pytest.approx(740 / 590, rel=0.01))
    assert head(report)[-1].text.startswith(first.do)


def test_a_saving_that_is_explained_is_not_sent_to_be_captured(tmp_path: Path) -> None:
    report = titan(tmp_path, SAVED, 30, 25)

    assert [stall.known_as for stall in report.stalls] == ["checkpoint", "checkpoint"]
    assert [one.why for one in report.look] == ["typical steps"]


def test_an_event_of_no_time_is_near_no_stall_and_needs_no_remedy(tmp_path: Path) -> None:
    report = titan(tmp_path, "[GC] GC collection invoked by checkpointer. 0.01 seconds.", 30, 10)

    assert [near.kind for stall in report.stalls for near in stall.near] == []
    assert [remedy.kind for remedy in report.remedies if remedy.kind == "gc"] == []
