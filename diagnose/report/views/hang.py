"""What the reports of `diagnose hang` say alike: a call, its stack, and how far a rank got."""

from collections.abc import Mapping, Sequence

from diagnose.dumps.hang.answer import CallOf, Line, RankState, Verdict
from diagnose.report.views.words import spans

VERDICTS: Mapping[Verdict, str] = {
    "hung": "hung",
    "slow": "slow",
    "nothing-open": "not in a collective",
    "unknown": "unknown",
}


def call_line(call: CallOf) -> str:
    """Whose call it is, which one, and how far it got."""
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


def parted(number: int) -> str:
    """Since when ranks are at different places of the program."""
    return f"from call {number} of the group on, ranks ran different lines"


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'' if len(numbers) == 1 else 's'} {spans(numbers)}"


def _frame(frame: Line) -> str:
    return f"{frame.function} at {frame.file}:{frame.line}"
