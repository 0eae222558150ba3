"""Texts that the reports of `diagnose hang` share: a call, its stack, and how far a rank got."""

from collections.abc import Mapping, Sequence

from diagnose.commands.hang.answer import CallOf, Hang, Line, RankState, Verdict
from diagnose.report.views.words import counted, spans

VERDICTS: Mapping[Verdict, str] = {
    "hung": "hung",
    "slow": "slow",
    "nothing-open": "not in a collective",
    "unknown": "unknown",
}


def call_line(call: CallOf) -> str:
    """The call's ranks, its number and group, and its state."""
    return f"{_ranks(call.ranks)}: call {call.number} of group {call.group}, {call.op}, {', '.join(call.states)}"


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
    return f"{last.op}, call {last.number} of group {last.group}, {last.states[0]}" if last else "no call"


def progress(state: RankState) -> str:
    """Number of calls that a rank made, and the last one."""
    if not state.file:
        return "no dump"
    return f"{counted(state.calls, 'call')}, {state.open} open; last {reached(state)}"


def seen_without_dump(answer: Hang) -> list[tuple[str, tuple[str, ...]]]:
    """Stacks that py-spy printed for ranks without a dump that no fault blames; equal ones once."""
    blamed = {rank for fault in answer.faults for rank in fault.blamed}
    by_stack: dict[tuple[str, ...], list[int]] = {}
    for state in answer.ranks:
        if not state.file and state.rank not in blamed:
            by_stack.setdefault(state.stack, []).append(state.rank)
    return [(_ranks(ranks), stack) for stack, ranks in by_stack.items()]


def parted(number: int) -> str:
    """The call from which on ranks are at different places of the program."""
    return f"from call {number} of the group on, ranks ran different lines"


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'' if len(numbers) == 1 else 's'} {spans(numbers)}"


def _frame(frame: Line) -> str:
    return f"{frame.function} at {frame.file}:{frame.line}"
