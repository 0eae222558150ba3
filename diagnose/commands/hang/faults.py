"""The first faulty call of a group: some ranks have not made it, or call something else."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from diagnose.commands.hang.answer import Kind
from diagnose.commands.hang.branches import goes_on, is_branch
from diagnose.commands.hang.dump import DumpedCall
from diagnose.commands.hang.matching import Matched, difference, sides
from diagnose.trace.stacks import Frame

_ROUNDS_OF_A_LOOP = 2
_LOOKED_AHEAD = 3
_GOES_ON_ALONE = {"broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "scatter", "gather", "send"}


@dataclass(frozen=True)
class FoundFault:
    """A fault before it is put into words.

    Attributes:
        kind: what is wrong.
        of: the group.
        number: of the call; of messages that of the first one.
        sides: the ranks by what they call there, each with the call; the side that most ranks are on first, and that
            of the branch if a condition differs.
        blamed: the ranks that keep others waiting; none if no side is in the majority.
        waiting: the ranks whose call is open.
        ahead: by how many calls the blamed are ahead, if their next calls show it.
        parted_at: the first number from which the ranks run different lines.
    """

    kind: Kind
    of: Matched
    number: int
    sides: Sequence[tuple[tuple[int, ...], DumpedCall]]
    blamed: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    ahead: int = 0
    parted_at: int | None = None


def fault_of(of: Matched) -> FoundFault | None:
    """The first fault in a group; None if all its ranks that left a dump made the same calls.

    Calls of different lines may match, as those of a root and of the others do. If the ranks in a branch made one more
    than the others, though, and so are behind in the same loop, that is the fault.
    """
    found = _first_fault(of)
    at = found.parted_at if found is not None else None
    if found is None or at is None or at >= found.number:
        return found
    made = {rank: calls[at] for rank, calls in of.calls.items() if at in calls}
    lines = Counter(calls[0].line for calls in made.values())
    by_line = [[rank for rank in made if made[rank][0].line == line] for line, _ in lines.most_common()]
    branched = _branched(of, at, made, by_line)
    return branched if branched and goes_on(of, at, branched.sides[0][0][0], branched.sides[1][1]) else found


def _branched(
    of: Matched, number: int, made: Mapping[int, Sequence[DumpedCall]], by_call: Sequence[Sequence[int]]
) -> FoundFault | None:
    """The fault of ranks that take different branches before a call, those in the branch first; None if they do not."""
    for takers, others in (by_call[:2], by_call[1::-1]):
        if is_branch(of, number, takers[0], others[0]):
            sides_of = [(tuple(side), made[side[0]][0]) for side in (takers, others, *by_call[2:])]
            blamed = by_call[1] if len(by_call[0]) > len(by_call[1]) else ()
            waiting = tuple(sorted(rank for rank, calls in of.calls.items() if _is_open(calls)))
            return FoundFault("condition", of, number, sides_of, tuple(blamed), waiting, parted_at=number)
    return None


def _is_open(calls: Mapping[int, Sequence[DumpedCall]]) -> bool:
    return any(call.is_open for made in calls.values() for call in made)


def _first_fault(of: Matched) -> FoundFault | None:
    behind = None
    for number in of.numbers():
        made = {rank: calls[number] for rank, calls in of.calls.items() if number in calls}
        by_call = sides(made)
        if len(by_call) > 1 and not _went_well(made):
            return _mismatch(of, number, made, by_call)
        lacking = [rank for rank in of.calls if rank not in made and rank not in of.unsure]
        if lacking and made:
            found = _missing(of, number, made, lacking)
            if found.waiting:
                return found
            behind = behind or found
    return _of_messages(of) or behind


def open_together(of: Matched) -> FoundFault | None:
    """The first call that every rank with a dump has made and that has not ended on all of them."""
    for number in of.numbers():
        made = {rank: calls[number] for rank, calls in of.calls.items() if number in calls}
        waiting = tuple(rank for rank, calls in made.items() if any(call.is_open for call in calls))
        if waiting:
            absent = tuple(rank for rank in of.members if rank not in of.calls)
            one = next(iter(made.values()))[0]
            kind: Kind = "missing-dump" if absent else "in-call"
            return FoundFault(kind, of, number, [(tuple(made), one)], absent or _not_begun(made), waiting)
    return None


def _not_begun(made: Mapping[int, Sequence[DumpedCall]]) -> tuple[int, ...]:
    """The ranks whose device has not begun a call that has begun on others."""
    queued = tuple(rank for rank, calls in made.items() if calls[0].state == "scheduled")
    return queued if len(queued) < len(made) and made[next(iter(made))][0].backend != "gloo" else ()


def _missing(of: Matched, number: int, made: Mapping[int, Sequence[DumpedCall]], lacking: Sequence[int]) -> FoundFault:
    one = next(iter(made.values()))[0]
    failed = one.backend == "gloo" and one.op not in _GOES_ON_ALONE  # it cannot have ended without the others
    waiting = tuple(rank for rank, calls in made.items() if failed or any(call.is_open for call in calls))
    kind: Kind = "missing-rank" if waiting else "behind"
    parted_at = _parted_at(of, number)
    return FoundFault(kind, of, number, [(tuple(made), one)], tuple(lacking), waiting, parted_at=parted_at)


def _went_well(made: Mapping[int, Sequence[DumpedCall]]) -> bool:
    """Whether a call ended on all ranks that made it; of gloo's, one that failed is marked like one that ended."""
    return all(not call.is_open and call.backend != "gloo" for calls in made.values() for call in calls)


def _mismatch(
    of: Matched, number: int, made: Mapping[int, Sequence[DumpedCall]], by_call: list[list[int]]
) -> FoundFault:
    most, other = by_call[0], by_call[1]
    has_majority = len(most) > len(other)
    ahead = _ahead(of, number, most[0], other[0])
    if not _swapped(of, number, most[0], other[0]) and (branched := _branched(of, number, made, by_call)):
        return branched
    return FoundFault(
        _kind(of, number, most[0], other[0], ahead),
        of,
        number,
        [(tuple(side), made[side[0]][0]) for side in by_call],
        tuple(sorted(rank for side in by_call[1:] for rank in side)) if has_majority else (),
        tuple(sorted(rank for rank, calls in made.items() if any(call.is_open for call in calls))),
        ahead if has_majority else 0,
        _parted_at(of, number),
    )


def _kind(of: Matched, number: int, a: int, b: int, ahead: int) -> Kind:
    """Kind of a difference: the same calls in another order, another place of the program, or another call."""
    if _swapped(of, number, a, b):
        return "order"
    here, there = of.calls[a][number], of.calls[b][number]
    what = difference(here, there) or "type"
    if ahead or (_other_lines(here[0], there[0], what) and _loops(of, number, a, b)):
        return "desynchronised"
    return what


def _other_lines(a: DumpedCall, b: DumpedCall, what: str) -> bool:
    """Whether two calls are at different lines; without stacks, whether they are different operations."""
    return a.line != b.line if a.line and b.line else what == "type"


def _loops(of: Matched, number: int, a: int, b: int) -> bool:
    """Whether the call of one side was repeated before on both sides: a round of a loop that the other left."""
    return any(
        min(rounds(of, rank, call, number) for rank in (a, b)) >= _ROUNDS_OF_A_LOOP
        for call in (of.calls[a][number][0], of.calls[b][number][0])
    )


def rounds(of: Matched, rank: int, call: DumpedCall, before: int) -> int:
    """Number of earlier calls of the rank that are the same, by line or else by kind."""
    earlier = (made[0] for number, made in of.calls[rank].items() if number < before)
    return sum(_same_place(call, other) for other in earlier)


def _same_place(a: DumpedCall, b: DumpedCall) -> bool:
    if a.line and b.line:
        return a.line == b.line
    return (a.op, a.input_sizes, a.output_sizes) == (b.op, b.input_sizes, b.output_sizes)


def _swapped(of: Matched, number: int, a: int, b: int) -> bool:
    """Whether two sides make the same two calls in opposite order."""
    both = [[of.calls[rank].get(at) for at in (number, number + 1)] for rank in (a, b)]
    (first, second), (third, fourth) = both
    if first is None or second is None or third is None or fourth is None:
        return False
    return difference(first, fourth) is None and difference(second, third) is None


def _ahead(of: Matched, number: int, a: int, b: int) -> int:
    """Number of calls that `b` is ahead of `a`, whose calls match `b`'s next ones so much later; negative if behind.

    It is 0 if the calls after this one agree as they are: then only this one differs.
    """
    if _follows(of, number + 1, a, b, 0, least=1):
        return 0
    for shift in range(1, _LOOKED_AHEAD + 1):
        if _follows(of, number, b, a, shift):
            return shift
        if _follows(of, number, a, b, shift):
            return -shift
    return 0


def _follows(of: Matched, number: int, early: int, late: int, shift: int, least: int = 2) -> bool:
    """Whether the calls of `early` from `number` on are those of `late`, shifted by `shift`, as far as known."""
    pairs = [(of.calls[early].get(at), of.calls[late].get(at + shift)) for at in range(number, number + 8)]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return len(known) >= least and all(difference(a, b) is None for a, b in known)


def _parted_at(of: Matched, number: int) -> int | None:
    """The first number up to this one at which the ranks call from different lines."""
    for at in of.numbers():
        if at > number:
            break
        lines: set[Frame | None] = {calls[at][0].line for calls in of.calls.values() if at in calls}
        if len(lines - {None}) > 1:
            return at
    return None


def _of_messages(of: Matched) -> FoundFault | None:
    """The first send or receive whose peer has no matching call open: the rank that waits, and the peer."""
    for rank, calls in of.open_messages.items():
        for call in calls:
            other = _other_end(of, rank, call)
            if other is None or other not in of.calls:
                continue
            answers = [mine for mine in of.open_messages[other] if mine.message == call.message and mine.op != call.op]
            sizes = {mine.input_sizes if mine.op == "send" else mine.output_sizes for mine in (call, *answers[:1])}
            if not answers:
                return FoundFault("missing-rank", of, call.number, [((rank,), call)], (other,), (rank,))
            if len(sizes) > 1 and None not in sizes:
                both = [((rank,), call), ((other,), answers[0])]
                return FoundFault("size", of, call.number, both, (), tuple(sorted((rank, other))))
    return None


def _other_end(of: Matched, rank: int, call: DumpedCall) -> int | None:
    """The rank that a message goes to or comes from, by its place among the sorted members."""
    if call.message is None:
        return None
    place = call.message[1] if call.op == "send" else call.message[0]
    ordered = sorted(of.members)
    return ordered[place] if of.are_known and place < len(ordered) else None if of.are_known else place
