"""The sentences of an answer: the fault of a call, its ranks and its line."""

from collections.abc import Iterable, Sequence

from diagnose.commands.hang.branches import condition_of
from diagnose.commands.hang.dump import DumpedCall
from diagnose.commands.hang.faults import FoundFault, rounds

_MOST_TENSORS = 3


def ranks(numbers: Iterable[int]) -> str:
    """`rank 2`, `ranks 0, 1, 4-7`."""
    listed = sorted(numbers)
    parts: list[str] = []
    i = 0
    while i < len(listed):
        end = i
        while end + 1 < len(listed) and listed[end + 1] == listed[end] + 1:
            end += 1
        parts += [f"{listed[i]}-{listed[end]}"] if end - i > 1 else [str(rank) for rank in listed[i : end + 1]]
        i = end + 1
    return f"rank{'' if len(listed) == 1 else 's'} {', '.join(parts)}"


def called(call: DumpedCall) -> str:
    """The call with its tensors and line: `all_reduce of 4,096 Float at train.py:41 in step`."""
    sizes = call.input_sizes if call.input_sizes else call.output_sizes
    types = call.input_types or call.output_types or ()
    return call.op + _tensors(sizes or (), types) + _at(call)


def said(found: FoundFault) -> str:
    """The fault as a sentence."""
    return _SENTENCES[found.kind](found)


def _tensors(sizes: Sequence[int], types: Sequence[str]) -> str:
    if not sizes:
        return ""
    listed = " + ".join(f"{size:,}" for size in sizes[:_MOST_TENSORS])
    more = f" and {len(sizes) - _MOST_TENSORS} more tensors" if len(sizes) > _MOST_TENSORS else ""
    return f" of {listed} {'/'.join(dict.fromkeys(types)) or 'elements'}{more}"


def _at(call: DumpedCall) -> str:
    return f" at {call.line.file}:{call.line.line} in {call.line.function}" if call.line else ""


def _has(numbers: Sequence[int]) -> str:
    return "has" if len(numbers) == 1 else "have"


def _nth(found: FoundFault) -> str:
    return f"call {found.number} of group {found.of.group.shown}"


def _missing(found: FoundFault) -> str:
    call = found.sides[0][1]
    if call.message is not None:
        no_answer = f"{ranks(found.blamed)} {_has(found.blamed)} no open {'send' if call.op == 'recv' else 'receive'}"
        return (
            f"{_capital(ranks(found.waiting))} waits in a {call.op} with {ranks(found.blamed)}{_at(call)}"
            f" (group {found.of.group.shown}), and {no_answer} for it."
        )
    waits = f"{ranks(found.waiting)} {'waits' if len(found.waiting) == 1 else 'wait'}"
    return (
        f"{_capital(ranks(found.blamed))} {_has(found.blamed)} not made {_nth(found)}, {called(call)}; {waits} in it."
    )


def _behind(found: FoundFault) -> str:
    return (
        f"{_capital(ranks(found.blamed))} {_has(found.blamed)} not reached {_nth(found)}, {called(found.sides[0][1])},"
        " which has ended on the others: behind, and nobody waits for it."
    )


def _differ(found: FoundFault) -> str:
    what = {"type": "operation", "size": "number of elements", "data-type": "type of the tensors"}[found.kind]
    return f"Ranks disagree about the {what} of {_nth(found)}: {_sides(found)}."


def _sides(found: FoundFault) -> str:
    return "; ".join(
        f"{ranks(side)} {'calls' if len(side) == 1 else 'call'} {called(call)}" for side, call in found.sides
    )


def _order(found: FoundFault) -> str:
    if len({call.group.name for _, call in found.sides}) > 1:
        waits = "; ".join(
            f"{ranks(side)} {'waits' if len(side) == 1 else 'wait'} in call {call.number} of group {call.group.shown},"
            f" {called(call)}"
            for side, call in found.sides
        )
        return f"Ranks make calls of several groups in different orders, and wait for each other: {waits}."
    return (
        f"Ranks make calls {found.number} and {found.number + 1} of group {found.of.group.shown} in different orders:"
        f" {_sides(found)} first."
    )


def _condition(found: FoundFault) -> str:
    (takers, call), (others, instead) = found.sides[0], found.sides[1]
    test = condition_of(call, instead)
    where = f" at {test.file}:{test.line}" if test else ""
    still = f"{ranks(others)} {'is' if len(others) == 1 else 'are'} still in the same loop"
    return (
        f"Ranks take different branches before {_nth(found)}: {_sides(found)}. A condition{where} leads"
        f" {ranks(takers)} there, and {still}: uneven numbers of batches are not the reason."
    )


def _desynchronised(found: FoundFault) -> str:
    (most, common), (others, _) = found.sides[0], found.sides[1]
    text = f"Ranks are at different places of the program at {_nth(found)}: {_sides(found)}."
    if found.ahead:
        way = "ahead: calls that the others make were skipped" if found.ahead > 0 else "behind: it makes more calls"
        number = f"{abs(found.ahead)} call{'' if abs(found.ahead) == 1 else 's'}"
        return f"{text} {_capital(ranks(found.blamed))} {'is' if len(found.blamed) == 1 else 'are'} {number} {way}."
    here = rounds(found.of, most[0], common, found.number + 1)
    there = rounds(found.of, others[0], common, found.number + 1)
    return f"{text} {common.op}{_at(common)} ran {here} times on {ranks(most)} and {there} times on {ranks(others)}."


def _in_call(found: FoundFault) -> str:
    every = "Every rank" if found.of.are_known else "Every rank with a dump"
    text = f"{every} has made {_nth(found)}, {called(found.sides[0][1])}, and it has not ended: none is missing."
    if found.blamed:
        text += f" It has begun on the others, and not on the device of {ranks(found.blamed)}."
    return text


def _no_dump(found: FoundFault) -> str:
    return (
        f"{_capital(ranks(found.blamed))} left no dump, and all others wait in {_nth(found)},"
        f" {called(found.sides[0][1])}."
    )


def _group(found: FoundFault) -> str:
    lines = "; ".join(f"{ranks(side)} in group {call.group.shown}" for side, call in found.sides)
    return f"Ranks make the same call, {called(found.sides[0][1])}, in different groups: {lines}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


_SENTENCES = {
    "missing-rank": _missing,
    "missing-dump": _no_dump,
    "behind": _behind,
    "type": _differ,
    "size": _differ,
    "data-type": _differ,
    "order": _order,
    "group": _group,
    "condition": _condition,
    "desynchronised": _desynchronised,
    "in-call": _in_call,
}
