"""The stacks of a rank as a tree in the answer, and as boxes on the page: both add up, and both are bounded."""

from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.diagnosis import StackFrame, UserCode
from diagnose.judge.stack_tree import MOST_FRAMES, stack_tree
from diagnose.metrics.lines.user_code import SAMPLES, Spent, ThreadWork
from diagnose.report.html.flame import FEW, NARROWEST, Box, flame_of
from diagnose.trace.stacks import Frame

MEASURED = Path(__file__).parents[1] / "measured" / "h100-eager-attention"
MAIN, LOOP, LOSS = Frame("train.py", 40, "main"), Frame("train.py", 20, "loop"), Frame("loss.py", 7, "loss")


def work(*stacks: Spent, whole: float = 100) -> ThreadWork:
    return ThreadWork(stacks, whole, f"{whole:.0f} samples of the training thread", SAMPLES, 1e6)


def spent(*frames: Frame, samples: float, doing: str = "forward", calls: str = "") -> Spent:
    return Spent(frames, doing, calls, samples)


def test_a_frame_holds_what_it_calls_and_each_purpose_has_its_own() -> None:
    code = work(
        spent(MAIN, LOOP, samples=10),
        spent(MAIN, LOOP, LOSS, samples=30, calls="exp"),
        spent(MAIN, LOOP, samples=40, doing="loading"),
    )

    told = [(f.doing, f.function, f.caller, f.share, f.own_share) for f in stack_tree(code)]

    assert told == [
        ("forward", "main", -1, 0.4, 0.0),
        ("loading", "main", -1, 0.4, 0.0),
        ("forward", "loop", 0, 0.4, 0.1),
        ("loading", "loop", 1, 0.4, 0.4),
        ("forward", "loss", 2, 0.3, 0.0),
        ("forward", "exp", 4, 0.3, 0.3),
    ]


def test_the_libraries_own_functions_stand_below_the_line_that_calls_them() -> None:
    below = tuple(("json/decoder.py", name) for name in ("loads", "decode", "raw_decode", "scan_once"))

    tree = stack_tree(work(Spent((MAIN,), "loading", "loads", 5, below)))

    assert [(f.function, f.file, f.line) for f in tree[1:]] == [
        (name, "json/decoder.py", 0) for name in ("loads", "decode", "raw_decode")
    ]


def test_the_frames_with_most_time_are_kept_with_their_callers() -> None:
    many = [spent(MAIN, Frame("a.py", at, f"f{at}"), samples=1 + at) for at in range(1000)]

    tree = stack_tree(work(*many, whole=600_000))

    assert len(tree) == MOST_FRAMES
    assert [frame.function for frame in tree[:3]] == ["main", "f999", "f998"]
    assert_adds_up(tree)


def assert_adds_up(tree: tuple[StackFrame, ...]) -> None:
    below = [0.0] * len(tree)
    for at, frame in enumerate(tree):
        assert frame.caller < at
        if frame.caller >= 0:
            below[frame.caller] += frame.share
            assert tree[frame.caller].doing == frame.doing
    assert all(frame.own_share + inside <= frame.share + 1e-9 for frame, inside in zip(tree, below, strict=True))


def test_the_stacks_of_a_real_capture_add_up_to_its_samples() -> None:
    code = analyze(MEASURED).user_code

    assert code is not None
    assert code.samples == 202
    assert code.half_error == pytest.approx(0.07, abs=0.001)
    assert_adds_up(code.stacks)
    outermost = sum(frame.share for frame in code.stacks if frame.caller < 0)
    assert outermost == pytest.approx(sum(each.share for each in code.functions))
    assert len(msgspec.json.encode(code.stacks)) < 60_000


def test_boxes_lie_inside_the_box_above_and_beside_each_other() -> None:
    code = analyze(MEASURED).user_code
    assert code is not None

    boxes = drawn(code)

    for level in range(2, max(box.level for box in boxes) + 1):
        row = sorted((box for box in boxes if box.level == level), key=lambda box: box.x)
        above = [box for box in boxes if box.level == level - 1]
        assert all(left.x + left.width <= right.x + 1e-6 for left, right in pairwise(row))
        assert all(any(a.x <= box.x + 1e-6 and box.x + box.width <= a.x + a.width + 1e-6 for a in above) for box in row)
    assert all(box.width >= 100 * NARROWEST for box in boxes)


def drawn(code: UserCode) -> list[Box]:
    flame = flame_of(code)
    assert flame is not None
    return flame.boxes


def frame(caller: int, function: str, share: float, own: float = 0.0) -> StackFrame:
    known = {"file": "train.py", "line": 3, "doing": "step", "share": share, "own_share": own}
    return StackFrame(caller=caller, function=function, **known)  # type: ignore[arg-type]


def test_narrow_and_left_out_frames_share_a_box() -> None:
    code = UserCode(
        of="2,000 samples of the training thread",
        samples=2000,
        stacks=(
            frame(-1, "main", 0.9, own=0.1),
            frame(0, "wide", 0.5, own=0.5),
            frame(0, "narrow", 0.0005, own=0.0005),
        ),
    )

    says = [box.says for box in drawn(code)]

    assert says == [
        "2,000 samples of the training thread",
        "other code of the step, 1,800 samples, 90.0 %",
        "main (train.py:3), 1,800 samples, 90.0 %",
        "wide (train.py:3), 1,000 samples, 50.0 %",
        "narrow frames, 600 samples, 30.0 %",
        "code that is not yours, or in frames that are left out, 200 samples, 10.0 %",
    ]


def test_few_samples_come_with_a_warning_and_recorded_calls_without_a_number() -> None:
    code = UserCode(of="40 samples", samples=FEW - 10, half_error=0.15, stacks=(frame(-1, "main", 0.9, own=0.9),))
    few, many = flame_of(code), flame_of(replace(code, samples=FEW))
    calls = flame_of(replace(code, samples=None, half_error=None))

    assert few is not None
    assert many is not None
    assert calls is not None
    assert (few.warns, many.warns, calls.warns) == (True, False, False)
    assert few.rough == "a width of a half is known to ±15.0 % of the whole"
    assert (calls.rough, calls.boxes[2].says) == ("", "main (train.py:3), 90.0 %")


def test_without_stacks_nothing_is_drawn() -> None:
    assert flame_of(UserCode(because="the stack was not sampled")) is None
