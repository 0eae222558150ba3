"""Judge which fault comes first, which follow from it, and what they mean for the job."""

from collections.abc import Iterator, Mapping, Sequence

from diagnose.commands.hang.answer import CallOf, Fault, Hang, Line, RankState, UnreadFile, Verdict
from diagnose.commands.hang.dump import Dump, DumpedCall
from diagnose.commands.hang.faults import FoundFault, fault_of, open_together
from diagnose.commands.hang.matching import disagreements, everyone, matched
from diagnose.commands.hang.next_steps import next_steps, unknowns
from diagnose.commands.hang.progress import Progress, progress_between
from diagnose.commands.hang.reading import FolderContents
from diagnose.commands.hang.words import ranks as ranks_text
from diagnose.commands.hang.words import said
from diagnose.trace.stacks import Frame

_MAY_GO_ON = {"in-call", "behind"}
_DEEPEST_TOLD = 60


def judged(folder: FolderContents, earlier: FolderContents | None = None) -> Hang:
    """Judge the dumps of a folder.

    Args:
        folder: the dumps, as `found_in` reads them.
        earlier: dumps of the same job from before, which show whether it moves.
    """
    dumps = folder.dumps
    if not dumps:
        return only_seen(folder)
    groups = matched(dumps)
    first, follow = _roots([found for of in groups if (found := fault_of(of)) is not None])
    if not first:
        together = [found for of in groups if (found := open_together(of)) is not None]
        first = sorted(together, key=_begin)[:1]
    disagreed = [_about_members(name, by_list) for name, by_list in disagreements(dumps)]
    faults = (*disagreed, *(_fault(found, dumps) for found in first))
    absent = tuple(sorted(everyone(dumps) - set(dumps)))
    progress = progress_between(earlier.dumps, dumps) if earlier is not None else None
    verdict, headline = _verdict(faults, first, progress)
    return Hang(
        folder=folder.folder,
        verdict=verdict,
        headline=headline,
        faults=faults,
        follow=tuple(_fault(found, dumps) for found in follow),
        ranks=_states(folder),
        without_dump=absent,
        unread=tuple(UnreadFile(file=entry.file, why=entry.why) for entry in folder.unread),
        unknown=tuple(unknowns(dumps, groups, absent)),
        next=tuple(next_steps(faults, absent, folder.stacks, progress)),
    )


def _roots(found: Sequence[FoundFault]) -> tuple[list[FoundFault], list[FoundFault]]:
    """The faults that no other explains, by time, and those that follow: the ranks they blame wait elsewhere."""
    waits = [found for found in found if found.waiting]
    causes: list[FoundFault] = []
    follow: list[FoundFault] = []
    for fault in found:
        elsewhere = {rank for other in waits if other is not fault for rank in other.waiting}
        (follow if fault.blamed and elsewhere.issuperset(fault.blamed) else causes).append(fault)
    if follow and not [fault for fault in causes if fault.kind != "behind"]:
        circle = sorted(follow, key=_begin)
        return [_circle(circle), *causes], circle
    serious = [fault for fault in causes if fault.kind != "behind"] or causes
    return sorted(serious, key=_begin), sorted(follow, key=_begin)


def _circle(faults: Sequence[FoundFault]) -> FoundFault:
    """The fault of groups whose ranks wait for each other: called in another order, or one line for several groups."""
    sides = [(fault.waiting, fault.sides[0][1]) for fault in faults]
    calls = [call for _, call in sides]
    one_line = len({(call.line, call.op) for call in calls}) == 1 and calls[0].line is not None
    waiting = tuple(sorted({rank for fault in faults for rank in fault.waiting}))
    return FoundFault("group" if one_line else "order", faults[0].of, faults[0].number, sides, (), waiting)


def _begin(found: FoundFault) -> int:
    return min((call.created_ns or 0 for _, call in found.sides), default=0)


def _fault(found: FoundFault, dumps: Mapping[int, Dump]) -> Fault:
    instead = [
        _last_of(dumps[rank]) for rank in found.blamed if rank in dumps and found.kind in ("missing-rank", "behind")
    ]
    return Fault(
        kind=found.kind,
        group=found.of.group.shown,
        number=found.number,
        blamed=found.blamed,
        waiting=found.waiting,
        calls=tuple(_call_of(side, call) for side, call in found.sides),
        instead=tuple(call for call in instead if call is not None),
        parted_at=found.parted_at,
        says=said(found),
    )


def _about_members(name: str, by_list: Mapping[tuple[int, ...], Sequence[int]]) -> Fault:
    most = sorted(by_list, key=lambda members: len(by_list[members]), reverse=True)
    clear = len(by_list[most[0]]) > len(by_list[most[1]])
    lists = "; ".join(f"{ranks_text(by_list[members])}: {ranks_text(members)}" for members in most)
    return Fault(
        kind="group",
        group=name,
        number=0,
        blamed=tuple(sorted(rank for members in most[1:] for rank in by_list[members])) if clear else (),
        waiting=(),
        calls=(),
        says=f"Ranks disagree about who is in group {name}: {lists}.",
    )


def _verdict(faults: Sequence[Fault], first: Sequence[FoundFault], progress: Progress | None) -> tuple[Verdict, str]:
    """Verdict by the dumps, and before that by whether the job moved between two of them."""
    if progress is not None and progress.moved:
        return "slow", f"Slow, not hung: since the earlier dumps {ranks_text(progress.moved)} made further calls."
    if any(fault.kind not in _MAY_GO_ON for fault in faults):
        return "hung", faults[0].says
    gave_up = any(call.timed_out for found in first for _, call in found.sides)
    if gave_up or (progress is not None and first):
        return "hung", faults[0].says
    if faults:
        return "slow", f"Slow, or stuck below the program: {faults[0].says[:1].lower()}{faults[0].says[1:]}"
    return "nothing-open", "No call is open and no rank is behind: the dumps show no hang in a collective."


def _states(folder: FolderContents) -> tuple[RankState, ...]:
    with_dump = [_state(dump, folder.stacks.get(rank, ())) for rank, dump in folder.dumps.items()]
    return tuple(sorted([*with_dump, *seen_alone(folder)], key=lambda state: state.rank))


def _state(dump: Dump, stack: tuple[str, ...]) -> RankState:
    return RankState(
        rank=dump.rank,
        file=dump.file,
        version=dump.version,
        calls=len(dump.calls),
        open=sum(call.is_open for call in dump.calls),
        last=_last_of(dump),
        stack=stack,
    )


def _last_of(dump: Dump) -> CallOf | None:
    return _call_of((dump.rank,), dump.calls[-1]) if dump.calls else None


def _call_of(ranks: Sequence[int], call: DumpedCall) -> CallOf:
    return CallOf(
        ranks=tuple(ranks),
        group=call.group.shown,
        number=call.number,
        op=call.op,
        elements=call.input_sizes,
        types=call.input_types,
        states=("timed out" if call.timed_out else call.state,),
        line=None if call.line is None else _line(call.line),
        stack=tuple(map(_line, call.stack[:_DEEPEST_TOLD])),
    )


def _line(frame: Frame) -> Line:
    return Line(file=frame.file, line=frame.line, function=frame.function)


# Answer from the stacks that py-spy printed, if no dump shows the calls.

_WAITS = ("torch/distributed/", "_engine_run_backward")
_WHERE = "where ranks wait for each other, in a call of torch.distributed or the backward pass"


def only_seen(folder: FolderContents) -> Hang:
    """The answer for a folder with stacks and without dumps: where each rank was, and which of them waited."""
    return Hang(
        folder=folder.folder,
        verdict="unknown",
        headline=f"No dump shows which calls were made. {_who_waits(folder.stacks)}",
        faults=(),
        follow=(),
        ranks=tuple(seen_alone(folder)),
        without_dump=tuple(folder.stacks),
        unread=tuple(UnreadFile(file=entry.file, why=entry.why) for entry in folder.unread),
        unknown=("which calls were made, and which is waited for: there is no dump of a flight recorder",),
        next=tuple(_next(folder.stacks)),
    )


def seen_alone(folder: FolderContents) -> Iterator[RankState]:
    """The ranks with stacks and without a dump."""
    for rank, stack in sorted(folder.stacks.items()):
        if rank not in folder.dumps:
            yield RankState(rank=rank, file="", version="", calls=0, open=0, last=None, stack=stack)


def _who_waits(stacks: Mapping[int, tuple[str, ...]]) -> str:
    waiting, others = _divided(stacks)
    if not waiting:
        return f"By its stack no rank that py-spy saw ({ranks_text(others)}) is {_WHERE}."
    inside = f"{_by(waiting)} {_WHERE}"
    if not others:
        return f"{inside}, and py-spy saw no other."
    at = {stacks[rank][0] for rank in others}
    where = f", but in {at.pop()}" if len(at) == 1 else ""
    return f"{inside}; {ranks_text(others)} {'is' if len(others) == 1 else 'are'} not{where}."


def _by(ranks: Sequence[int]) -> str:
    one = len(ranks) == 1
    return f"By {'its stack' if one else 'their stacks'} {ranks_text(ranks)} {'is' if one else 'are'}"


def _next(stacks: Mapping[int, tuple[str, ...]]) -> Iterator[str]:
    waiting, others = _divided(stacks)
    if waiting and others:
        yield (
            f"Look at what {ranks_text(others)} did at the line shown: a branch that ranks take differently, an"
            " exception, a loader that ran empty or stands still, a checkpoint of one rank."
        )
    yield "For the calls, let each rank write what its flight recorder holds: docs/hang.md. Gloo writes none by itself."


def _divided(stacks: Mapping[int, tuple[str, ...]]) -> tuple[list[int], list[int]]:
    """The ranks whose stack has a frame that waits for other ranks, and those without one."""
    waiting = [
        rank
        for rank, stack in sorted(stacks.items())
        if any(in_torch in frame for frame in stack for in_torch in _WAITS)
    ]
    return waiting, [rank for rank in sorted(stacks) if rank not in waiting]
