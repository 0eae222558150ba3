"""Match the calls of a group across ranks: the same number is the same call, on all ranks that made it.

Numbers are those of the recorder, which counts the collectives of a group alike on all its members. NCCL needs
agreement on the operation, the elements of the tensors (not their shape), and their type; `torch.distributed` defines
which tensors of each operation.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from diagnose.commands.hang.dump import Dump, DumpedCall, DumpedGroup

Key = tuple[str, tuple[int, ...] | None]
MOST_BY_NAME = 1 << 14
Difference = Literal["type", "size", "data-type"]
_ROOT_ALONE_GIVES = {"scatter"}
_ROOT_ALONE_TAKES = {"gather"}
_INPUTS_DIFFER = {"scatter", "all_gather", "all_gather_v", "alltoall_base", "all_to_all", "all_to_all_v_single"}
_OUTPUTS_DIFFER = {"gather", "reduce_scatter", "reduce_scatter_v", "alltoall_base", "all_to_all", "all_to_all_v_single"}
_WHOLE_JOB = "default_pg"
_TOGETHER = "coalesced"  # the end of a batch of calls, of which ranks may make different ones


@dataclass(frozen=True)
class Matched:
    """The calls of one group on all ranks that left a dump.

    Attributes:
        group: as its members name it.
        members: all ranks of it, with a dump or without.
        are_known: whether a dump lists the members; else they are those that made a call, or every rank.
        calls: of each rank, its collectives by number; those of one number are made together.
        open_messages: of each rank, its sends and receives that have not ended.
        unsure: ranks that have no call of the group, and no longer have all calls.
    """

    group: DumpedGroup
    members: tuple[int, ...]
    are_known: bool
    calls: Mapping[int, Mapping[int, tuple[DumpedCall, ...]]]
    open_messages: Mapping[int, Sequence[DumpedCall]]
    unsure: frozenset[int]

    def last(self, rank: int) -> int:
        """The number of the rank's last call; 0 if it has made none."""
        return max(self.calls[rank], default=0)

    def numbers(self) -> list[int]:
        """Numbers of the calls, in order, from the first one that every rank still has."""
        first = max((min(of) for of in self.calls.values() if of), default=1)
        return sorted(number for number in set().union(*self.calls.values()) if number >= first)


def matched(dumps: Mapping[int, Dump]) -> list[Matched]:
    """Every group of the job, in the order of names."""
    members = _members(dumps)
    calls = _calls(dumps)
    keys = sorted(members, key=lambda key: (key[0].zfill(9), key[1] or ()))
    return [_of_group(key, members[key], dumps, calls) for key in keys]


def everyone(dumps: Mapping[int, Dump]) -> set[int]:
    """All ranks of the job: those with a dump and those that a dump lists.

    If no dump lists the whole job, all ranks below the largest number in a file name count.
    """
    return {*dumps, *_listed(dumps), *(() if _in_the_job(dumps) else range(_known_by_names(dumps)))}


def strangers(dumps: Mapping[int, Dump]) -> list[int]:
    """Ranks of dumps, by file name, that do not belong to the job: not among the stated ranks, else too large."""
    stated, most = _in_the_job(dumps), _known_by_names(dumps)
    return [rank for rank in dumps if (rank not in stated if stated else rank >= most)]


def _listed(dumps: Mapping[int, Dump]) -> set[int]:
    return {rank for dump in dumps.values() for group in dump.groups.values() for rank in group.ranks or ()}


def _in_the_job(dumps: Mapping[int, Dump]) -> set[int]:
    """The members of the group of all ranks, if a dump lists them."""
    groups = (group for dump in dumps.values() for group in dump.groups.values())
    return {rank for group in groups if group.label == _WHOLE_JOB for rank in group.ranks or ()}


def _known_by_names(dumps: Mapping[int, Dump]) -> int:
    """Least number of ranks of the job by file names, which are believed up to a size that jobs have."""
    return max((rank for rank in dumps if rank < MOST_BY_NAME), default=-1) + 1


def disagreements(dumps: Mapping[int, Dump]) -> list[tuple[str, dict[tuple[int, ...], list[int]]]]:
    """Groups whose ranks disagree about its members: for each list of members, the ranks that state it.

    Groups of one name whose members do not overlap are several: a group that was split.
    """
    lists: dict[str, dict[tuple[int, ...], list[int]]] = defaultdict(lambda: defaultdict(list))
    for rank, dump in dumps.items():
        for group in dump.groups.values():
            if group.ranks is not None and rank in group.ranks:
                lists[group.name][group.ranks].append(rank)
    return [(name, dict(by_list)) for name, by_list in sorted(lists.items()) if _overlap(by_list)]


def difference(a: Sequence[DumpedCall], b: Sequence[DumpedCall]) -> Difference | None:
    """The kind of difference of the same call on two ranks; None if there is none, or the dumps do not show it."""
    for one, other in zip(a, b, strict=False):
        if one.op != other.op:
            return "type"
        if _in_sizes(one, other):
            return "size"
        if _in_types(one, other):
            return "data-type"
    return "size" if len(a) != len(b) else None


def sides(calls: Mapping[int, Sequence[DumpedCall]]) -> list[list[int]]:
    """The ranks grouped by their call, the largest group first."""
    found: list[list[int]] = []
    for rank, made in calls.items():
        for side in found:
            if difference(calls[side[0]], made) is None:
                side.append(rank)
                break
        else:
            found.append([rank])
    return sorted(found, key=len, reverse=True)


def _in_sizes(a: DumpedCall, b: DumpedCall) -> bool:
    inputs = a.op not in _INPUTS_DIFFER and _differ(a.input_sizes, b.input_sizes)
    return inputs or (a.op not in _OUTPUTS_DIFFER and _differ(a.output_sizes, b.output_sizes))


def _in_types(a: DumpedCall, b: DumpedCall) -> bool:
    inputs = a.op not in _ROOT_ALONE_GIVES and _differ(_kinds(a.input_types), _kinds(b.input_types))
    return inputs or (a.op not in _ROOT_ALONE_TAKES and _differ(_kinds(a.output_types), _kinds(b.output_types)))


def _kinds(types: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if types is None else tuple(sorted(set(types)))


def _differ(a: Sequence[object] | None, b: Sequence[object] | None) -> bool:
    return a is not None and b is not None and bool(a) and bool(b) and a != b


def _calls(dumps: Mapping[int, Dump]) -> Mapping[Key, Mapping[int, list[DumpedCall]]]:
    """The calls of each group by rank."""
    found: dict[Key, dict[int, list[DumpedCall]]] = defaultdict(lambda: defaultdict(list))
    for rank, dump in dumps.items():
        of_object: dict[int, list[DumpedCall]] = defaultdict(list)  # lists of a thousand members are compared once each
        for call in dump.calls:
            of_object[id(call.group)].append(call)
        for calls in of_object.values():
            found[calls[0].group.name, calls[0].group.ranks][rank] += calls
    return found


def _members(dumps: Mapping[int, Dump]) -> dict[Key, DumpedGroup]:
    """The groups that calls were made in or that a dump lists, by name and members."""
    found: dict[Key, DumpedGroup] = {}
    for dump in dumps.values():
        made_in = {id(call.group): call.group for call in dump.calls}
        for group in (*dump.groups.values(), *made_in.values()):
            found.setdefault((group.name, group.ranks), group)
    known = Counter(name for name, ranks in found if ranks is not None)
    return {key: group for key, group in found.items() if key[1] is not None or not known[key[0]]}


def _of_group(
    key: Key, group: DumpedGroup, dumps: Mapping[int, Dump], calls: Mapping[Key, Mapping[int, list[DumpedCall]]]
) -> Matched:
    """The matched calls of a group; a rank whose dump lists no members made its calls in the group of that name."""
    name, ranks = key
    collectives: dict[int, dict[int, tuple[DumpedCall, ...]]] = {}
    messages: dict[int, list[DumpedCall]] = {}
    listed, unlisted = calls.get(key, {}), calls.get((name, None), {})
    for rank in dumps if ranks is None else [rank for rank in ranks if rank in dumps]:
        own = listed.get(rank, []) + (unlisted.get(rank, []) if ranks is not None else [])
        if own or ranks is not None or group.label == _WHOLE_JOB:
            collectives[rank] = _by_number(call for call in own if call.message is None and call.op != _TOGETHER)
            messages[rank] = [call for call in own if call.message is not None and call.is_open]
    everybody = ranks or tuple(sorted(everyone(dumps) if group.label == _WHOLE_JOB else collectives))
    unsure = frozenset(rank for rank, of in collectives.items() if not of and dumps[rank].lost)
    return Matched(group, everybody, ranks is not None, collectives, messages, unsure)


def _by_number(calls: Iterable[DumpedCall]) -> dict[int, tuple[DumpedCall, ...]]:
    found: dict[int, list[DumpedCall]] = defaultdict(list)
    for call in calls:
        found[call.number].append(call)
    return {number: tuple(made) for number, made in found.items()}


def _overlap(by_list: Mapping[tuple[int, ...], object]) -> bool:
    seen: set[int] = set()
    for ranks in by_list:
        if seen.intersection(ranks):
            return True
        seen.update(ranks)
    return False
