"""Jobs of several ranks whose collectives are matched, and what is changed in their traces."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from analysed import GEMM, content, digest
from kineto import Trace, collective

from diagnose.facts import Unknown
from diagnose.ranks import GroupMatch, RankDigest

Json = dict[str, Any]
FIELDS = re.compile(r"Collective name|msg nelems|Group|Seq|dtype|split size")
SEND_RECEIVE = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def each_step(count: int, work: Callable[[list[Trace]], object], steps: int = 4, world: int = 0) -> list[Trace]:
    """Ranks that do the same work in each step."""
    traces = [Trace(rank=r, world=world or count) for r in range(count)]
    for _ in range(steps):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                trace.launch(GEMM, 300)
            work(traces)
            for trace in traces:
                trace.sync(stream=None)
    return traces


def reduced(traces: Sequence[Trace], late: int = -1, **more: Any) -> None:
    """An all-reduce that the rank at a position enters 5 ms after the others."""
    for position, trace in enumerate(traces):
        if position == late:
            trace.launch(GEMM, 5000)
    collective(traces, "allreduce", 1 << 22, 200, wait=True, **more)


def changed(trace: Trace | Json, change: Callable[[Json], None]) -> Json:
    """The trace with its events changed."""
    found = content(trace) if isinstance(trace, Trace) else trace
    for event in found["traceEvents"]:
        change(event)
    return found


def without(*fields: str, of: str = "") -> Callable[[Json], None]:
    """Takes fields from the events of a category, from all events without one."""

    def change(event: Json) -> None:
        if event.get("cat", "").startswith(of):
            event["args"] = {k: v for k, v in event.get("args", {}).items() if k not in fields}

    return change


def groups(found: Sequence[GroupMatch] | Unknown) -> dict[tuple[str, tuple[int, ...]], int]:
    """How many collectives of each group are matched."""
    assert not isinstance(found, Unknown), found.because
    return {(g.group.name, g.group.ranks): len(g.call) for g in found}


def digests(traces: Sequence[Trace | Json]) -> list[RankDigest]:
    return [digest(trace, rank) for rank, trace in enumerate(traces)]
