"""Text logs of training loops: the steps, their times, the stall and what stands before it; hostile lines."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from text_logs import BEGIN, LOGS, STALL, deepspeed, megatron, mllog, step_times, torchtitan

from diagnose.commands.series.answer import SeriesReport
from diagnose.commands.series.judge import judged
from diagnose.errors import UserError
from diagnose.series import read_runs, read_series
from diagnose.series.log_events import kind_of
from diagnose.series.text_log import LONGEST


def report(folder: Path, lines: Sequence[str], name: str = "train.log") -> SeriesReport:
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return judged(read_series(folder / name))


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS)
def test_each_form_tells_the_stall_and_what_it_cost(
    tmp_path: Path, log: Callable[[Sequence[float]], list[str]]
) -> None:
    found = report(tmp_path, log(step_times()))

    (stall,) = found.stalls
    assert stall.optimizer_step == STALL
    assert stall.cost_s == pytest.approx(20, rel=0.01)
    assert found.median_s == pytest.approx(0.5, rel=0.02)
    assert found.changes == ()


def test_a_collection_of_garbage_near_the_stall_is_named(tmp_path: Path) -> None:
    (stall,) = report(tmp_path, torchtitan(step_times())).stalls

    assert [near.kind for near in stall.near] == ["gc"]
    assert "periodical GC collection" in stall.near[0].text


def test_a_warning_near_the_stall_is_quoted_and_the_ranks_are_known(tmp_path: Path) -> None:
    (stall,) = report(tmp_path, megatron(step_times())).stalls

    assert stall.near[0].text.startswith("NCCL WARN")
    assert stall.gpu_hours == pytest.approx(20 * 16 / 3600, rel=0.01)


def test_what_is_logged_at_every_step_is_near_none(tmp_path: Path) -> None:
    lines = [part for line in megatron(step_times()) for part in (line, "Saved checkpoint in 0.01 s")]

    (stall,) = report(tmp_path, lines).stalls

    assert [near.kind for near in stall.near] == ["log"]


def test_a_log_that_counts_samples_keeps_its_count_and_tells_the_optimizer_step(tmp_path: Path) -> None:
    found = report(tmp_path, mllog(step_times()))

    assert (found.stalls[0].step, found.stalls[0].optimizer_step) == (STALL * 64, STALL)
    assert "--at-step 149 " in found.look[0].command


def test_lines_of_interleaved_ranks_are_tracks_of_one_run(tmp_path: Path) -> None:
    ranks = [torchtitan(step_times(), f"[rank{rank}]:") for rank in range(4)]
    lines = [line for of_step in zip(*ranks, strict=True) for line in of_step]

    found = report(tmp_path, lines)

    assert found.ranks == (0, 1, 2, 3)
    (stall,) = found.stalls
    assert stall.ranks == (0, 1, 2, 3)
    assert stall.gpu_hours == pytest.approx(20 * 4 / 3600, rel=0.01)


def test_lines_of_several_ranks_without_their_number_are_one_track(tmp_path: Path) -> None:
    found = report(tmp_path, [line for line in torchtitan(step_times(), "") for _ in range(4)])

    assert (found.tracks, len(found.stalls)) == (1, 1)


def test_a_restart_is_no_stall(tmp_path: Path) -> None:
    """150 steps, ten minutes of nothing, then from step 101 again."""
    first, second = torchtitan([0.5] * 150), torchtitan([0.5] * 100)
    later = BEGIN + timedelta(minutes=12)
    moved = []
    for number, line in enumerate(second):
        clock = later + timedelta(seconds=0.5 * number)
        moved.append(
            f"[titan] {clock:%Y-%m-%d %H:%M:%S},{clock.microsecond // 1000:03} step: {101 + number}  loss:  6.1"
        )
        assert "step:" in line or "[GC]" in line
    found = report(tmp_path, [line for line in first if "[GC]" not in line] + moved)

    assert found.stalls == ()
    assert any("resumed at step 101" in note for note in found.notes)


def test_several_logs_are_runs_of_one_job(tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        paths.append(tmp_path / name / "train.log")
        paths[-1].write_text("\n".join(deepspeed(step_times(stall_s=0 if name == "c" else 20))) + "\n")

    found = judged(read_runs(paths))

    assert [(one.run, one.step) for one in found.stalls] == [("a/train.log", STALL), ("b/train.log", STALL)]
    recurs = found.stalls[0].recurs
    assert recurs is not None
    assert (recurs.runs, recurs.of_runs, recurs.every_steps) == (2, 3, None)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("saving checkpoint at iteration     100 to /ckpt", "checkpoint"),
        ("Finished saving the checkpoint in 12.3 seconds", "checkpoint"),
        ("loading checkpoint from /ckpt at iteration 100", "restart"),
        (" validation loss at iteration 100 | lm loss value: 7.1E+00", "evaluation"),
        ("[GC] Performing periodical GC collection. 0.06 seconds.", "gc"),
        ("Dataset c4_test is being re-looped, epoch 2", "epoch"),
        ("Dumping profiler traces at step 200", "profiler"),
        ("[rank0]:W torch._dynamo hit config.recompile_limit (8): Recompiling", "compilation"),
        ("everything is fine", None),
    ],
)
def test_lines_that_are_no_steps(line: str, kind: str | None) -> None:
    assert kind_of(line) == kind


def test_validation_losses_are_no_steps(tmp_path: Path) -> None:
    lines = megatron(step_times())
    lines.insert(101, " validation loss at iteration 100 | lm loss value: 7.1E+00 | lm loss PPL: 1.2E+03 |")

    assert report(tmp_path, lines).samples == 200


HOSTILE = {
    "a line of megabytes": ["step: 1 loss: " + "9" * (3 << 20)],
    "spaces without end": ["iteration " + " " * 200_000 + "elapsed time per iteration (ms): " + " " * 200_000],
    "brackets without end": ["[" * 500_000 + "/ < ["],
    "escapes without end": ["\x1b[" * 300_000],
    "an MLLOG of brackets": [":::MLLOG " + "[" * 200_000],
    "numbers out of range": [
        f"step: {'9' * 15} loss: 1 dt 1e999ms",
        "step: 1 loss: 2 dt nan",
        "step: 2 loss: 2 dt 1e308s",
    ],
    "a date that is none": ["2026-13-45 99:99:99,000 step: 1  loss: 2"],
}


@pytest.mark.parametrize("lines", HOSTILE.values(), ids=HOSTILE)
def test_hostile_lines_are_passed_over(tmp_path: Path, lines: list[str]) -> None:
    found = report(tmp_path, [*megatron(step_times()), *lines])

    assert [one.step for one in found.stalls] == [STALL]


@pytest.mark.parametrize("lines", HOSTILE.values(), ids=HOSTILE)
def test_hostile_lines_alone_end_in_an_error_or_in_unknown(tmp_path: Path, lines: list[str]) -> None:
    try:
        found = report(tmp_path, lines)
    except UserError:
        return
    assert found.not_told is not None


def test_a_line_is_looked_at_to_a_stated_length(tmp_path: Path) -> None:
    long = [line + " " * LONGEST + "step: 7 loss: 1" for line in megatron(step_times())]

    assert report(tmp_path, long).samples == 200


def test_steps_without_any_time_say_what_to_log(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="have no times") as error:
        report(tmp_path, [f"step: {step}  loss: 2.0" for step in range(50)])

    assert "asctime" in error.value.do


def test_a_file_without_steps_says_what_is_known(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no line of the log has a step") as error:
        report(tmp_path, ["hello", "world"])

    assert "Megatron-LM" in error.value.why


def test_a_packed_log(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "train.log.gz").write_bytes(gzip.compress("\n".join(torchtitan(step_times())).encode()))

    assert len(judged(read_series(tmp_path / "train.log.gz")).stalls) == 1


def test_a_scalar_that_tensorboard_exports(tmp_path: Path) -> None:
    clocks = BEGIN.timestamp() + np.cumsum(step_times())
    scalars = [[float(clock), step, 2.0] for step, clock in enumerate(clocks, 1)]
    (tmp_path / "loss.json").write_text(str(scalars))
    (tmp_path / "loss.csv").write_text("Wall time,Step,Value\n" + "".join(f"{a},{b},{c}\n" for a, b, c in scalars))

    for name in ("loss.json", "loss.csv"):
        (stall,) = judged(read_series(tmp_path / name)).stalls
        assert (stall.step, round(stall.cost_s)) == (STALL, 20)
