"""Ranks that part within a loop, by a condition, are told from a rank that has left the loop for want of batches."""

from pathlib import Path
from typing import Any

import pytest
from recorded_calls import Made, answer, job, steps, waiting

from diagnose.commands.hang.answer import Hang

BEGIN, GRADIENTS, LOSS = Made(line=8), Made(line=10), Made(line=14, size=(1,))
DONE = steps(3, GRADIENTS, LOSS)
IN_BETWEEN, BEHIND = Made("barrier", line=12), Made("barrier", line=20)
PROGRAM = """import torch.distributed as dist
def train(batches, rank):
    for epoch in range(3):
        for batch in batches:
            dist.all_reduce(batch)
            if rank == 0:
                dist.barrier()
            if batch.sum() > 3:
                return dist.barrier()
        dist.barrier()
        if rank == 0:
            dist.barrier()
"""


def within(path: Path, dumps: dict[int, Any]) -> dict[int, Any]:
    """The dumps of a program whose text is at hand."""
    path.write_text(PROGRAM)
    for dump in dumps.values():
        for entry in dump["entries"]:
            for frame in entry["frames"]:
                frame["filename"] = frame["filename"].replace("/home/me/train.py", str(path))
    return dumps


def kind(found: Hang) -> tuple[str, tuple[int, ...]]:
    (fault,) = found.faults
    return fault.kind, fault.calls[0].ranks


def test_a_call_between_the_lines_of_the_others_loop_is_a_branch_of_it(tmp_path: Path) -> None:
    found = answer(tmp_path, job(*[[*DONE, waiting(GRADIENTS)]] * 2, [*DONE, waiting(IN_BETWEEN)]))

    assert kind(found) == ("condition", (2,))
    assert found.faults[0].blamed == (2,)
    assert "rank 2 calls barrier at /home/me/train.py:12 in train" in found.headline
    assert "uneven numbers of batches are not the reason" in found.headline
    assert "same branch" in found.next[0]


def test_a_call_behind_the_loop_is_uneven_batches(tmp_path: Path) -> None:
    found = answer(tmp_path, job(*[[*DONE, waiting(GRADIENTS)]] * 2, [*DONE, waiting(BEHIND)]))

    assert kind(found)[0] == "desynchronised"
    assert "drop_last" in found.next[0]


def test_a_rank_that_goes_on_in_the_loop_has_not_left_it(tmp_path: Path) -> None:
    further = [waiting(BEHIND), waiting(GRADIENTS), waiting(LOSS)]

    found = answer(tmp_path, job([*DONE, waiting(GRADIENTS), waiting(LOSS)], [*DONE, *further]))

    assert kind(found) == ("condition", (1,))


def test_a_branch_whose_call_matched_another_one_is_found_where_the_ranks_parted(tmp_path: Path) -> None:
    """Rank 0 reduces as many elements in a branch as all do in the loop, and so makes one call more."""
    alike = Made(line=12)

    found = answer(
        tmp_path,
        job(
            [*DONE, alike, GRADIENTS, waiting(LOSS)],
            [*DONE, GRADIENTS, waiting(LOSS)],
            [*DONE, GRADIENTS, waiting(LOSS)],
        ),
    )

    assert kind(found) == ("condition", (0,))
    assert found.faults[0].number == 7


def test_a_call_that_the_root_makes_at_a_line_of_its_own_is_no_branch(tmp_path: Path) -> None:
    sent, received = Made("broadcast", line=12), Made("broadcast", line=13)
    root, others = ([*DONE, of, GRADIENTS, LOSS] for of in (sent, received))

    found = answer(tmp_path, job(root, [*others, waiting(GRADIENTS)], [*others, waiting(GRADIENTS)]))

    assert (found.faults[0].kind, found.faults[0].blamed) == ("missing-rank", (0,))


def test_calls_that_came_now_and_then_on_all_ranks_are_of_a_condition(tmp_path: Path) -> None:
    """By the loss, as in a check for a spike: three times so far, at no regular distance."""
    rare = Made("broadcast", line=20)
    before = [*steps(2, GRADIENTS), rare, GRADIENTS, rare, *steps(3, GRADIENTS), rare, GRADIENTS]

    found = answer(tmp_path, job([*before, waiting(GRADIENTS)], [*before, waiting(rare)]))

    assert kind(found) == ("condition", (1,))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (7, "condition"),
        (9, "desynchronised"),  # it returns from the loop
        (10, "desynchronised"),  # behind the inner loop, reached by every rank
        (12, "condition"),  # behind the inner loop, by the rank alone
    ],
)
def test_the_text_of_the_program_decides(line: int, told: str, tmp_path: Path) -> None:
    here = Made(line=5)
    dumps = job([*steps(3, here), waiting(here)], [*steps(3, here), waiting(Made("barrier", line=line))])

    found = answer(tmp_path / "dumps", within(tmp_path / "train.py", dumps))

    assert found.faults[0].kind == told
    if told == "condition":
        assert f"A condition at {tmp_path / 'train.py'}:{line - 1} leads rank 1 there" in found.headline


def test_a_text_that_is_no_program_tells_nothing(tmp_path: Path) -> None:
    here = Made(line=5)
    dumps = within(tmp_path / "train.py", job([*steps(3, here), waiting(here)], [*steps(3, here), waiting(IN_BETWEEN)]))
    (tmp_path / "train.py").write_text("for in :")

    assert answer(tmp_path / "dumps", dumps).faults[0].kind == "desynchronised"
