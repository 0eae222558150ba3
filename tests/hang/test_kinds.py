"""Ten kinds of dumps: who is named, at which call and line. Each by hand after the format of torch's recorder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kinds_of_hangs as kinds
import pytest
from recorded_calls import DEFAULT, Made, answer, dump, job, steps, waiting, written

from diagnose.commands.hang.judging import judged
from diagnose.commands.hang.reading import found_in


def test_the_rank_that_never_came_is_named_with_its_last_line(tmp_path: Path) -> None:
    found = answer(tmp_path, kinds.MISSING)

    assert found.verdict == "hung"
    assert found.headline == (
        "Rank 2 has not made call 7 of group 0 (default_pg), all_reduce of 12 Float at /home/me/train.py:10 in train;"
        " ranks 0, 1, 3 wait in it."
    )
    (fault,) = found.faults
    assert (fault.kind, fault.blamed, fault.waiting, fault.number) == ("missing-rank", (2,), (0, 1, 3), 7)
    assert fault.calls[0].line is not None
    assert [call.line.line for call in fault.instead if call.line] == [12]  # the last call that rank 2 made
    assert [frame.function for frame in fault.calls[0].stack] == ["all_reduce", "train", "<module>"]
    assert "py-spy dump" in found.next[0]
    assert "train.py:12" in found.next[1]


@pytest.mark.parametrize(
    ("dumps", "kind", "blamed", "words"),
    [
        (kinds.OTHER_ORDER, "order", (2,), "calls 7 and 8 of group 0 (default_pg) in different orders"),
        (kinds.OTHER_SIZE, "size", (2,), "rank 2 calls all_reduce of 6 Float"),
        (kinds.OTHER_OPERATION, "type", (2,), "rank 2 calls broadcast of 12 Float at /home/me/train.py:31"),
        (kinds.OTHER_TYPE, "data-type", (2,), "rank 2 calls all_reduce of 12 BFloat16"),
        (kinds.OTHER_GROUP, "group", (), "rank 2 in group 2 (mesh_tp)"),
        (kinds.LEFT_THE_LOOP, "desynchronised", (3,), "ran 4 times on ranks 0-2 and 3 times on rank 3"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_who_calls_something_else_is_named(
    dumps: dict[int, Any], kind: str, blamed: tuple[int, ...], words: str, tmp_path: Path
) -> None:
    found = answer(tmp_path, dumps)

    assert (found.verdict, found.faults[0].kind, found.faults[0].blamed) == ("hung", kind, blamed)
    assert words in found.headline


def test_a_call_that_all_ranks_have_made_is_slow_and_not_hung(tmp_path: Path) -> None:
    found = answer(tmp_path, kinds.SLOW)

    assert (found.verdict, found.faults[0].kind, found.faults[0].blamed) == ("slow", "in-call", (3,))
    assert "none is missing" in found.headline
    assert "not on the device of rank 3" in found.headline


def test_a_job_that_moved_since_earlier_dumps_is_slow(tmp_path: Path) -> None:
    round_ = steps(1, kinds.GRADIENTS, kinds.LOSS)
    before = written(tmp_path / "before", kinds.MISSING)
    after = written(tmp_path / "after", job(*[[*kinds.DONE, *round_, waiting(kinds.GRADIENTS)]] * 2, kinds.DONE))

    moved = judged(found_in(after), found_in(before))
    stood = judged(found_in(before), found_in(before))

    assert (moved.verdict, stood.verdict) == ("slow", "hung")
    assert "since the earlier dumps ranks 0, 1 made further calls" in moved.headline


def test_a_call_that_the_watchdog_gave_up_is_hung_though_all_ranks_made_it(tmp_path: Path) -> None:
    gave_up = [*kinds.DONE, Made(state="started", retired=True)]

    found = answer(tmp_path, job(gave_up, gave_up))

    assert (found.verdict, found.faults[0].kind) == ("hung", "in-call")
    assert found.faults[0].calls[0].states == ("timed out",)


def test_a_rank_without_a_dump_is_named_and_the_others_are_judged(tmp_path: Path) -> None:
    found = answer(tmp_path, kinds.PARTIAL)

    assert (found.verdict, found.faults[0].blamed) == ("hung", (2,))
    assert found.without_dump == (1, 3)
    assert found.unknown[0] == "what ranks 1, 3 did, because there is no dump of it"
    assert any("Collect the dumps of ranks 1, 3" in line for line in found.next)


def test_the_one_rank_without_a_dump_is_blamed_when_all_others_wait(tmp_path: Path) -> None:
    found = answer(tmp_path, {rank: kinds.MISSING[rank] for rank in (0, 1, 3)})

    assert (found.verdict, found.faults[0].kind, found.faults[0].blamed) == ("hung", "missing-dump", (2,))


def test_old_versions_are_read(tmp_path: Path) -> None:
    found = answer(tmp_path, kinds.OLD)

    assert (found.verdict, found.faults[0].blamed, found.faults[0].number) == ("hung", (1,), 4)
    assert [state.version for state in found.ranks] == ["1.0"] * 3


def test_a_hostile_dump_runs_nothing_and_the_others_are_judged(tmp_path: Path) -> None:
    made = tmp_path / "made"

    found = answer(tmp_path / "dumps", kinds.hostile(str(made)))

    assert not made.exists()
    assert [entry.file for entry in found.unread] == ["nccl_trace_rank_3"]
    assert "nothing of it was run" in found.unread[0].why
    assert (found.faults[0].kind, found.faults[0].blamed, found.without_dump) == ("missing-rank", (2,), (3,))


def test_json_has_no_stacks_and_says_so(tmp_path: Path) -> None:
    bare = job(*[[*kinds.DONE, waiting(kinds.GRADIENTS)]] * 2, kinds.DONE, stacks=False)

    found = answer(tmp_path, bare, as_json=True)

    assert (found.verdict, found.faults[0].blamed) == ("hung", (2,))
    assert found.faults[0].calls[0].line is None
    assert any(line.startswith("the lines of ranks 0-2") for line in found.unknown)


def test_healthy_dumps_have_no_fault(tmp_path: Path) -> None:
    found = answer(tmp_path, job(kinds.DONE, kinds.DONE))

    assert (found.verdict, found.faults) == ("nothing-open", ())


def test_what_is_behind_without_anybody_waiting_is_slow(tmp_path: Path) -> None:
    sent = Made("broadcast", line=20)

    found = answer(tmp_path, job([*kinds.DONE, sent], kinds.DONE))

    assert (found.verdict, found.faults[0].kind, found.faults[0].blamed) == ("slow", "behind", (1,))


def test_groups_that_wait_for_each_other_are_one_fault(tmp_path: Path) -> None:
    first, second = Made("all_reduce", line=15, group=kinds.A), Made("all_gather", line=16, group=kinds.B)
    groups = {kinds.A: [0, 1], kinds.B: [0, 1]}

    found = answer(tmp_path, job([waiting(first)], [waiting(second)], groups=groups))

    assert (found.verdict, found.faults[0].kind, found.faults[0].waiting) == ("hung", "order", (0, 1))
    assert "wait for each other" in found.headline
    assert len(found.follow) == 2


def test_a_rank_that_waits_in_another_group_is_not_the_cause(tmp_path: Path) -> None:
    """Rank 1 is missing in A because it waits in B, for rank 2: that is the cause."""
    in_a, in_b = Made(line=15, group=kinds.A), Made(line=16, group=kinds.B)
    groups = {kinds.A: [0, 1], kinds.B: [1, 2]}

    found = answer(tmp_path, job([waiting(in_a)], [waiting(in_b)], [], groups=groups))

    assert [(fault.group, fault.blamed) for fault in found.faults] == [("2 (mesh_tp)", (2,))]
    assert [(fault.group, fault.blamed) for fault in found.follow] == [("1 (mesh_dp)", (1,))]


def test_ranks_that_disagree_about_the_members_of_a_group_are_named(tmp_path: Path) -> None:
    dumps = job([kinds.GRADIENTS], [kinds.GRADIENTS], [kinds.GRADIENTS], groups={kinds.A: [0, 1, 2]})
    dumps[2]["pg_config"]["1"]["ranks"] = "[1, 2]"

    found = answer(tmp_path, dumps)

    assert (found.verdict, found.faults[0].kind, found.faults[0].blamed) == ("hung", "group", (2,))
    assert "rank 2: ranks 1, 2" in found.headline


def test_a_message_that_nobody_sends_is_told(tmp_path: Path) -> None:
    found = answer(tmp_path, job([waiting(Made("recv 0<-1", line=40))], [kinds.GRADIENTS]))

    assert (found.faults[0].blamed, found.faults[0].waiting) == ((1,), (0,))
    assert "waits in a recv with rank 1 at /home/me/train.py:40" in found.faults[0].says


def test_calls_that_are_no_longer_kept_are_no_missing_ones(tmp_path: Path) -> None:
    """The buffer of rank 1 begins later: what it made before is not known to be missing."""
    calls = [*steps(3, kinds.GRADIENTS, kinds.LOSS), waiting(kinds.GRADIENTS)]
    dumps = job(calls, calls)
    dumps[1] = kinds.dump(calls, {DEFAULT: range(2)}, lost=4)

    found = answer(tmp_path, dumps)

    assert (found.verdict, found.faults[0].kind, found.faults[0].number) == ("slow", "in-call", 7)
    assert any("what rank 1 called at the beginning" in line for line in found.unknown)


def test_a_number_out_of_all_proportion_takes_no_longer(tmp_path: Path) -> None:
    """The numbers between it and the others are those of no call, and nobody looks at them."""
    dumps = job([kinds.GRADIENTS], [kinds.GRADIENTS, kinds.GRADIENTS])
    dumps[1]["entries"][1]["collective_seq_id"] = 1 << 40

    assert answer(tmp_path, dumps).faults[0].blamed == (0,)


def test_a_state_that_is_no_text_is_none(tmp_path: Path) -> None:
    dumps = job([kinds.GRADIENTS], [kinds.GRADIENTS])
    dumps[1]["entries"][0] |= {"state": ["completed"], "time_discovered_completed_ns": None}

    assert answer(tmp_path, dumps).ranks[1].open == 1


def test_a_stack_of_py_spy_stands_beside_the_missing_rank(tmp_path: Path) -> None:
    written(tmp_path, kinds.MISSING)
    (tmp_path / "stacks-rank2.txt").write_text(
        'Process 7: python train.py\nPython v3.11.7\n\nThread 9 (idle): "pin"\n    wait (threading.py:3)\n'
        'Thread 7 (active): "MainThread"\n    read (data.py:5)\n    train (train.py:12)\n'
    )

    found = judged(found_in(tmp_path))

    assert found.ranks[2].stack == ("read (data.py:5)", "train (train.py:12)")
    assert not any("py-spy dump" in line for line in found.next)


IN_A_CALL = "all_reduce (torch/distributed/distributed_c10d.py:3032)"
STACKS = {0: (IN_A_CALL, "train (train.py:9)"), 1: ("read (data.py:5)", "train (train.py:12)")}


def seen(folder: Path, stacks: Mapping[int, Sequence[str]]) -> Path:
    folder.mkdir(exist_ok=True)
    for rank, frames in stacks.items():
        lines = ['Thread 7 (idle): "MainThread"', *(f"    {frame}" for frame in frames)]
        (folder / f"stacks-rank{rank}.txt").write_text("\n".join(lines) + "\n")
    return folder


def test_without_dumps_the_stacks_tell_who_is_in_a_call_and_no_more(tmp_path: Path) -> None:
    found = judged(found_in(seen(tmp_path, STACKS)))

    assert found.verdict == "unknown"
    assert "rank 0 is where ranks wait for each other" in found.headline
    assert "rank 1 is not, but in read (data.py:5)" in found.headline
    assert [state.stack for state in found.ranks] == list(STACKS.values())
    assert "no dump" in found.unknown[0]


def test_a_rank_that_left_a_stack_and_no_dump_is_shown_with_it(tmp_path: Path) -> None:
    dumps = job([*kinds.DONE, waiting(kinds.GRADIENTS)], [*kinds.DONE, waiting(kinds.GRADIENTS)], kinds.DONE)
    folder = written(tmp_path, {rank: dumps[rank] for rank in (0, 1)})

    found = judged(found_in(seen(folder, {2: STACKS[1]})))

    assert (found.faults[0].kind, found.without_dump) == ("missing-dump", (2,))
    assert found.ranks[2].stack == STACKS[1]
    assert "Look at where py-spy saw rank 2" in found.next[0]


def test_missing_ranks_are_those_of_the_world_that_dumps_state_and_told_as_a_range(tmp_path: Path) -> None:
    waits = dump([*kinds.DONE, waiting(kinds.GRADIENTS)], {DEFAULT: range(1024)})

    found = answer(tmp_path, dict.fromkeys((0, 1, 2, 9_999_999), waits))

    assert found.without_dump == tuple(range(3, 1024))
    assert found.headline.startswith("Ranks 3-1023 left no dump")
    assert "what ranks 3-1023 did, because there is no dump of it" in found.unknown
    assert [line for line in found.unknown if line.startswith("whether rank 9999999 is of this job")]


def test_a_number_in_a_name_alone_tells_of_no_millions_of_ranks(tmp_path: Path) -> None:
    found = answer(tmp_path, {0: kinds.OLD[0], 2: kinds.OLD[2], 9_999_999: kinds.OLD[1]})

    assert found.without_dump == (1,)
    assert len(found.to_json()) < 10_000
