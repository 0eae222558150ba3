"""Jobs whose traces state impossible ranks, none, or the same one twice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digests import MS, digests, together
from kineto import Trace, collective
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.errors import UserError
from diagnose.ranks import RankDigest, match
from diagnose.ranks.collectives.process_groups import ProcessGroup
from diagnose.ranks.network.slow_links import slow_links
from diagnose.ranks.stragglers.lateness import excess_of


def job(count: int = 4) -> list[dict[str, Any]]:
    """Three steps on nodes of two ranks, of which the last rank is late."""
    traces = [Trace(rank=rank, world=count) for rank in range(count)]
    for _ in range(4):
        marks = [trace.step() for trace in traces]
        for mark, trace in zip(marks, traces, strict=True):
            mark.__enter__()
            trace.op("aten::mm", [[512, 512], [512, 512]], "nvjet_tst_128x256", 3000 if trace.rank == 3 else 1000)
        collective(traces, "allreduce", 1 << 22, 100, wait=True)
        for mark, trace in zip(marks, traces, strict=True):
            trace.sync(stream=None)
            mark.__exit__(None, None, None)
    return [trace.json() for trace in traces]


def written(folder: Path, traces: Sequence[dict[str, Any]], name: str = "rank{}.json") -> Path:
    for number, trace in enumerate(traces):
        (folder / name.format(number)).write_text(json.dumps(trace))
    return folder


@pytest.mark.parametrize("rank", [-1, 10**19, True, 1.5, "1"])
def test_a_rank_that_cannot_be_is_not_believed(tmp_path: Path, rank: object) -> None:
    traces = job()
    traces[1]["distributedInfo"]["rank"] = rank

    found = analyze(written(tmp_path, traces))

    assert [own.rank for own in found.ranks] == [0, 1, 2, 3]
    assert [straggler.rank for straggler in found.stragglers] == [3]


def test_a_file_that_does_not_say_takes_the_rank_that_is_left(tmp_path: Path) -> None:
    traces = job()
    del traces[1]["distributedInfo"]

    found = analyze(written(tmp_path, traces, "trace.{}000000000.json"))

    assert [own.rank for own in found.ranks] == [0, 1, 2, 3]
    assert [straggler.rank for straggler in found.stragglers] == [3]


def test_two_traces_of_one_rank_are_no_job(tmp_path: Path) -> None:
    traces = job()
    for trace in traces:  # as older exporters wrote it: behind the events, where the name is asked first
        trace["distributedInfo"] = {"pg_config": [{"pg_name": "0"}], **trace.pop("distributedInfo"), "rank": 1}

    with pytest.raises(UserError, match="two traces claim to be rank 1") as raised:
        analyze(written(tmp_path, traces))
    assert "rank0.json" in str(raised.value)


def groups(transfer_ms: Sequence[int], step: Sequence[int] = (0, 1, 2)) -> list[RankDigest]:
    """Pairs of ranks, whose collectives take so long and belong to such steps."""
    arrive = np.array([[10 * MS], [40 * MS], [70 * MS]]) + np.array([[0, MS]])
    pairs = [
        together(f"dp{pair}", (2 * pair, 2 * pair + 1), arrive, ms * MS, np.array(step))
        for pair, ms in enumerate(transfer_ms)
    ]
    return digests(pairs)


def test_collectives_of_unknown_size_do_not_make_a_slow_link() -> None:
    unsized = groups([2, 2, 9])
    sized = [replace(rank, calls=replace(rank.calls, bytes=np.full(3, 1 << 20))) for rank in unsized]

    assert [link.members for link in slow_links(sized, match(sized))] == [(4, 5)]  # type: ignore[arg-type]
    assert slow_links(unsized, match(unsized)) == []  # type: ignore[arg-type]


def test_a_collective_that_another_stream_delays_into_the_next_step_counts_there() -> None:
    ranks = groups([2], step=(1, 0, 1))
    (found,) = match(ranks)  # type: ignore[misc]

    assert excess_of(ranks, found).step.tolist() == [1, 1, 1]


def test_calls_with_and_without_the_ranks_of_their_group_are_of_one_group() -> None:
    ranks = groups([2])
    first = ranks[0].calls
    named = replace(first, groups=(*first.groups, ProcessGroup("dp0")), group=np.array([0, 1, 0]))

    (found,) = match([replace(ranks[0], calls=named), ranks[1]])  # type: ignore[misc]

    assert len(found.call) == 3


def test_a_group_over_two_nodes_is_not_held_against_those_inside_one() -> None:
    ranks = [replace(rank, calls=replace(rank.calls, bytes=np.full(3, 1 << 20))) for rank in groups([2, 2, 9])]
    found = match(ranks)

    assert slow_links(ranks, found, (0, 0, 0, 0, 0, 1)) == []  # type: ignore[arg-type]
    assert [link.members for link in slow_links(ranks, found, (0, 0, 0, 0, 1, 1))] == [(4, 5)]  # type: ignore[arg-type]
