"""The stacks of a thread as one tree of frames, as many as a picture needs."""

from collections import defaultdict

from diagnose.diagnosis import StackFrame
from diagnose.metrics.lines.user_code import Spent, ThreadWork
from diagnose.trace.stacks import Frame

MOST_FRAMES = 300
LIBRARY_FRAMES = 3  # below the user's last line: the first say what it asks for, deeper ones how that is done
Path = tuple[str | Frame, ...]


def stack_tree(code: ThreadWork) -> tuple[StackFrame, ...]:
    """The frames with most time, each behind its caller, which has at least as much."""
    inside, own = defaultdict[Path, float](float), defaultdict[Path, float](float)
    for stack in code.stacks:
        path = _path(stack)
        own[path] += stack.weight
        for depth in range(2, len(path) + 1):
            inside[path[:depth]] += stack.weight
    kept = sorted(inside, key=lambda path: (-inside[path], len(path)))[:MOST_FRAMES]
    number = {path: at for at, path in enumerate(kept)}
    return tuple(_frame(path, number.get(path[:-1], -1), inside[path], own[path], code) for path in kept)


def _path(stack: Spent) -> Path:
    """The purpose of the stack, the user's frames, and the first calls into libraries."""
    below = [Frame(file, 0, function) for file, function in (stack.below or ())[:LIBRARY_FRAMES]]
    if not below and stack.calls:
        below = [Frame("", 0, stack.calls)]
    return (stack.doing, *stack.frames, *below)


def _frame(path: Path, caller: int, inside: float, own: float, code: ThreadWork) -> StackFrame:
    doing, frame = path[0], path[-1]
    assert isinstance(frame, Frame)
    return StackFrame(
        caller=caller,
        file=frame.file,
        line=frame.line,
        function=frame.function,
        doing=doing,  # type: ignore[arg-type]
        share=code.share(inside),
        own_share=code.share(own),
    )
