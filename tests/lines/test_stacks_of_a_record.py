"""The stack samples of a record as typed values: what is sound is kept, what is not is lost and said."""

import pytest

from diagnose.decoding import LONGEST_NAME
from diagnose.trace.record import decoded
from diagnose.trace.stacks import Frame, Stack, StackSamples, stack_samples

COLLATE = {"frames": [["train.py", 12, "main"], ["data.py", 31, "collate"]], "doing": "loading", "samples": 131}
ITEM = {"frames": [["train.py", 15, "main"]], "doing": "step", "calls": "item", "samples": 60}
MEASURED = {"interval_ms": 10.0, "steps": 10, "first_step": 13, "wall_ms": 2140, "cost_ms": 4.1, "left_out": 3}


def test_samples_are_typed_and_the_most_frequent_stack_comes_first() -> None:
    taken = {**MEASURED, "samples": 200, "in_user_code": 191, "stacks": [ITEM, {**COLLATE, "calls": None}]}

    found = stack_samples(decoded({"stack_samples": {**taken, "workers": {"stacks": [COLLATE]}}}))

    collate = Stack((Frame("train.py", 12, "main"), Frame("data.py", 31, "collate")), "loading", "", 131)
    item = Stack((Frame("train.py", 15, "main"),), "step", "item", 60)
    assert found == StackSamples(200, 191, 10, 10.0, 2140.0, 4.1, (collate, item), (collate,), first_step=13)


def test_why_there_are_none_is_kept() -> None:
    found = stack_samples(decoded({"stack_samples": {"why_none": "the loop is short"}}))

    assert found == StackSamples(0, 0, 0, 0.0, 0.0, 0.0, (), (), "the loop is short")


@pytest.mark.parametrize("record", [{}, {"stack_samples": None}, {"stack_samples": [1]}])
def test_a_record_without_the_field_says_nothing_of_samples(record: object) -> None:
    assert stack_samples(decoded(record)) is None


@pytest.mark.parametrize(
    "unsound",
    [
        {**ITEM, "samples": 0},
        {**ITEM, "samples": True},
        {**ITEM, "frames": [["train.py", -1, "main"]]},
        {**ITEM, "frames": [["train.py", 1]]},
        {**ITEM, "frames": [["train.py", None, "main"]]},
        {**ITEM, "frames": [["train.py", 1, "main"]] * 41},
        {**ITEM, "frames": "train.py"},
        "train.py",
    ],
)
def test_a_stack_that_cannot_be_is_left_out_and_the_loss_is_said(unsound: object) -> None:
    record = decoded({"stack_samples": {"samples": 191, "stacks": [unsound, COLLATE]}})

    found = stack_samples(record)

    assert found is not None
    assert [stack.samples for stack in found.stacks] == [131]
    assert record.lost
    assert all(loss.startswith("record-value stack_samples.stacks") for loss in record.lost)


def test_a_long_name_is_cut_and_half_a_character_is_a_question_mark() -> None:
    frame = ["\ud800.py", 1, "f" * (LONGEST_NAME + 1)]

    found = stack_samples(decoded({"stack_samples": {"stacks": [{**ITEM, "frames": [frame]}]}}))

    assert found is not None
    assert found.stacks[0].frames == (Frame("?.py", 1, "f" * LONGEST_NAME),)


def test_more_stacks_than_a_capture_writes_are_none() -> None:
    record = decoded({"stack_samples": {"stacks": [ITEM] * 201}})

    assert record.lost == ("record-value stack_samples.stacks",)
