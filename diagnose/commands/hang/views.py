"""Texts that the reports of `diagnose hang` share: a call, its stack, and how far a rank got."""

from collections.abc import Mapping, Sequence

from diagnose.commands.hang.answer import CallOf, Fault, Hang, Line, RankState, Verdict
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted, spans

VERDICTS: Mapping[Verdict, str] = {
    "hung": "hung",
    "slow": "slow",
    "nothing-open": "not in a collective",
    "unknown": "unknown",
}
_OF_SIDES = ("type", "size", "data-type", "order", "group", "condition", "desynchronised")  # each side follows a colon
_STATES = {
    "scheduled": "queued, not started on the device",
    "started": "running on the device",
    "completed": "ended",
}


def head(answer: Hang) -> list[ScreenLine]:
    """The verdict, where the ranks are, and what to do."""
    fault = answer.faults[0] if answer.faults else None
    return [
        ScreenLine("verdict", plain(_verdict(answer, fault))),
        ScreenLine("where", plain(_where(fault)) if fault else ""),
        ScreenLine("next", plain(answer.next[0]) if answer.next else "", is_code=True),
    ]


def _verdict(answer: Hang, fault: Fault | None) -> str:
    what = answer.headline.removesuffix(".")
    if fault is not None and fault.kind in _OF_SIDES and answer.verdict == "hung":
        return what.partition(": ")[0]
    if fault is None or fault.kind != "missing-rank" or answer.verdict != "hung" or not fault.calls:
        return what
    call, is_one = fault.calls[0], len(fault.waiting) == 1
    if call.op in ("send", "recv") or not fault.waiting:
        return what
    missing = f"{named(fault.blamed)} {'is' if len(fault.blamed) == 1 else 'are'} missing from {call.op} {call.number}"
    return f"{missing}, in which {named(fault.waiting)} {'waits' if is_one else 'wait'}"


def _where(fault: Fault) -> str:
    """The lines at which the ranks were last, and at which the others wait; "" if the dumps have none."""
    if fault.kind in _OF_SIDES and ": " in fault.says:
        return fault.says.partition(": ")[2].removesuffix(".")
    last = [f"{named(call.ranks)} was last at {_line(call.line)}" for call in fault.instead if call.line is not None]
    sides = [(call.ranks, _line(call.line)) for call in fault.calls if call.line is not None]
    verb = "wait" if fault.waiting else "call"
    return "; ".join([*last, *(f"{named(ranks)} {verb}{'s' * (len(ranks) == 1)} at {line}" for ranks, line in sides)])


def _line(line: Line | None) -> str:
    return f"{line.file}:{line.line}" if line else ""


def named(numbers: Sequence[int]) -> str:
    """`rank 2`, `ranks 0, 1 and 3`."""
    first, comma, last = spans(numbers).rpartition(", ")
    return f"rank{'' if len(numbers) == 1 else 's'} {first}{' and ' if comma else ''}{last}"


def in_words(state: str) -> str:
    """The recorder's state of a call in words."""
    return _STATES.get(state, state)


def call_line(call: CallOf) -> str:
    """The call's ranks, its number and group, and its state in words."""
    return f"{named(call.ranks)}: {call.op} {call.number} of group {call.group}, {_spoken_states(call)}"


def stack_of(call: CallOf, whole: bool) -> list[str]:
    """The frames of a call, the innermost first; unless `whole`, from the innermost line of the user's own code on."""
    stack = [_frame(frame) for frame in call.stack]
    if whole or call.line is None:
        return stack
    line = _frame(call.line)
    return stack[stack.index(line) :] if line in stack else [line]


def reached(state: RankState) -> str:
    """The last call of a rank."""
    last = state.last
    return f"{last.op} {last.number} of group {last.group}, {_spoken_states(last)}" if last else "no call"


def _spoken_states(call: CallOf) -> str:
    return ", ".join(map(in_words, call.states))


def progress(state: RankState, last: bool = True) -> str:
    """Number of calls that a rank made, and the last one unless that is shown elsewhere."""
    if not state.file:
        return "no dump"
    calls = f"{counted(state.calls, 'call')}, {state.open or 'none'} open"
    return f"{calls}; last {reached(state)}" if last else calls


def alike(answer: Hang) -> list[tuple[str, str]]:
    """The ranks in the same state, and how far they got, in the order of the first rank of each."""
    shown = {
        (rank, call.number, call.group)
        for fault in answer.faults
        for call in (*fault.calls, *fault.instead)
        for rank in call.ranks
    }
    by_state: dict[str, list[int]] = {}
    for state in answer.ranks:
        last = state.last is not None and (state.rank, state.last.number, state.last.group) not in shown
        by_state.setdefault(progress(state, last), []).append(state.rank)
    return [(named(ranks), text) for text, ranks in by_state.items()]


def seen_without_dump(answer: Hang) -> list[tuple[str, tuple[str, ...]]]:
    """Stacks that py-spy printed for ranks without a dump that no fault blames; equal ones once."""
    blamed = {rank for fault in answer.faults for rank in fault.blamed}
    by_stack: dict[tuple[str, ...], list[int]] = {}
    for state in answer.ranks:
        if not state.file and state.rank not in blamed:
            by_stack.setdefault(state.stack, []).append(state.rank)
    return [(named(ranks), stack) for stack, ranks in by_stack.items()]


def parted(number: int) -> str:
    """The call from which on ranks are at different places of the program."""
    return f"from call {number} of the group on, ranks ran different lines"


def _frame(frame: Line) -> str:
    return f"{frame.function} at {frame.file}:{frame.line}"
