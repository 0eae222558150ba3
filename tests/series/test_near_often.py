"""What a log tells near many slow steps explains them all; what it tells near usual ones, too, explains none."""

from pathlib import Path

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.series import read_runs


def log(
    folder: Path, every: int, told_every: int, slow_s: float = 10.0, line: str = "Saving checkpoint"
) -> SeriesReport:
    """Four hundred steps of 0.5 s; each `every` takes longer, and a line is told before each `told_every`."""
    lines = []
    for step in range(1, 401):
        lines += [line] if step % told_every == 0 else []
        lines.append(f"step {step} loss 2.0 step_time {slow_s if step % every == 0 else 0.5:.3f}s")
    path = folder / "train.log"
    path.write_text("\n".join(lines))
    return judged(read_runs([path]))


def kinds_near(report: SeriesReport) -> set[str]:
    return {near.kind for one in (*report.stalls, *report.longest) for near in one.near}


def test_a_checkpoint_before_each_fourth_step_explains_those(tmp_path: Path) -> None:
    report = log(tmp_path, 4, 4)

    assert kinds_near(report) == {"checkpoint"}
    assert [remedy.kind for remedy in report.remedies] == ["checkpoint"]
    assert [one.why for one in report.look] == ["typical steps"]


def test_a_line_before_half_of_the_usual_steps_explains_nothing(tmp_path: Path) -> None:
    assert kinds_near(log(tmp_path, 100, 2)) == set()


def test_long_steps_that_the_log_explains_are_told_from_noise(tmp_path: Path) -> None:
    report = log(tmp_path, 3, 3)

    assert {one.told_from_noise for one in (*report.stalls, *report.longest)} == {True}
    assert [remedy.kind for remedy in report.remedies] == ["checkpoint"]


def test_a_time_that_is_stated_between_the_steps_is_part_of_the_run(tmp_path: Path) -> None:
    """Eight saves of 60 s beside 200 s of steps."""
    report = log(tmp_path, 50, 50, slow_s=0.5, line="saved checkpoint in 60.0 seconds")
    (remedy,) = report.remedies

    assert (report.stalls, remedy.kind, remedy.every_steps) == ((), "checkpoint", 50)
    assert (remedy.count, remedy.time_s) == (8, 480.0)
    assert remedy.run_share == 480 / 680
