"""The process group of a collective: its name and its ranks, since groups of different ranks share names."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec

from diagnose.decoding import MOST_RANKS
from diagnose.ranks.collectives.kinds import plain_kind
from diagnose.timeline.kernel_names import classify
from diagnose.trace import Trace
from diagnose.trace.distributed import Distributed

_NAMED_AT_MOST = 8
_EXPERT_KINDS = ("dispatch", "combine", "notifydispatch", "notifycombine")
_EXPERT = re.compile(r"(^|[^a-z])ep([^a-z]|$)|expert(?!.*data)")


class ProcessGroup(msgspec.Struct, frozen=True):
    """A process group as a trace names it.

    `ranks` is empty if the trace does not list them; `ambiguous` is then true if other ranks may mean another group by
    the same name.
    """

    name: str
    ranks: tuple[int, ...] = ()
    ambiguous: bool = False


class Naming(msgspec.Struct, frozen=True):
    """The process groups that a trace lists, by name, and the descriptions of those it gives one."""

    listed: Mapping[str, tuple[int, ...]]
    described: Mapping[str, str]
    world_size: int | None

    def named(self, name: str, ranks: str, size: int) -> ProcessGroup:
        """The group of a collective with fields: its name, its ranks as text, and their number."""
        members = self.listed.get(name) or _parsed(ranks, size)
        return ProcessGroup(name, members, not members and 0 < size < (self.world_size or 0))

    def unnamed(self, kind: str, event: str) -> ProcessGroup:
        """The group of a collective without fields: the only one there is, or that of the experts.

        Only kernels of NCCL share the order of the named ones.
        """
        if len(self.listed) == 1 and "nccl" in classify(event).tags:
            return ProcessGroup(*next(iter(self.listed.items())))
        experts = {self.listed[n] for n, text in self.described.items() if _EXPERT.search(text.lower())}
        every = set(self.listed.values())
        candidates = experts if plain_kind(kind) in _EXPERT_KINDS and len(experts) == 1 else every
        return (
            ProcessGroup("", next(iter(candidates)))
            if len(candidates) == 1
            else ProcessGroup("", (), len(candidates) > 1)
        )


def naming_of(trace: Trace) -> Naming:
    """The process groups that the trace lists: those its rank is a member of."""
    stated = trace.distributed or Distributed()
    listed = {group.name: group.ranks for group in stated.groups}
    return Naming(listed, {group.name: group.description for group in stated.groups}, stated.world_size)


def _parsed(text: str, size: int) -> tuple[int, ...]:
    """The ranks of `[0, 1, 2]`; of a list that was cut, those that its stride leads to."""
    ranks = [int(number) for number in re.findall(r"\d+", text)]
    if len(ranks) > 1 and "..." in text:
        stride = ranks[1] - ranks[0]
        regular = all(b - a == stride for a, b in pairwise(ranks))
        sound = stride > 0 and len(ranks) < size <= MOST_RANKS
        ranks = list(range(ranks[0], ranks[0] + stride * size, stride)) if sound and regular else []
    return tuple(sorted(ranks))


def named_ranks(ranks: Sequence[int]) -> str:
    """`rank 3` or `ranks 0, 2 and 5`; of many the first ones."""
    if len(ranks) > _NAMED_AT_MOST:
        return f"ranks {', '.join(map(str, ranks[:_NAMED_AT_MOST]))} and {len(ranks) - _NAMED_AT_MOST} more"
    *first, last = map(str, ranks) if ranks else [""]
    return f"ranks {', '.join(first)} and {last}" if first else f"rank {last}"
