"""Whether ranks part within a loop that all of them are in: a condition of it differs between them.

Uneven batches part ranks too, but there one side has left the loop. The lines that the sides call decide, and the
text of the program if it is at hand.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from diagnose.commands.hang.dump import DumpedCall
from diagnose.commands.hang.matching import Matched
from diagnose.trace.stacks import Frame

_LONGEST_TEXT = 1 << 20
_RECURS = 3
_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_TENSORS = re.compile("param|grad|bucket|tensor", re.IGNORECASE)
_ASKS_FOR_RANK = re.compile("rank|main|master|primary", re.IGNORECASE)
_LEAVES = (ast.Return, ast.Break, ast.Raise)


def is_branch(of: Matched, number: int, taker: int, other: int) -> bool:
    """Whether the rank `taker` makes the call of that number in a branch that `other` does not take, in the same loop.

    The text of the program decides. Without it, the other never makes that call, or both do so at no regular distance.
    """
    call, instead = of.calls[taker][number][0], of.calls[other][number][0]
    if call.line is None or instead.line is None or call.line == instead.line:
        return False
    rounds, recurs = _earlier(of, other, instead.line, number), _earlier(of, taker, call.line, number)
    inside = _inside_by_text(call, instead)
    if inside is not None:
        return inside and (len(recurs) < len(rounds) or (not rounds and condition_of(call, instead) is not None))
    if any(made[0].line == call.line for made in of.calls[other].values()):
        return len(recurs) < len(rounds) and _is_irregular(recurs)
    return bool(rounds) and (_between(of, number, call, other) or goes_on(of, number, taker, instead))


def _earlier(of: Matched, rank: int, line: Frame, number: int) -> list[int]:
    """Numbers of the rank's calls of a line before that number."""
    return sorted(at for at, made in of.calls[rank].items() if at < number and made[0].line == line)


def condition_of(call: DumpedCall, instead: DumpedCall) -> Frame | None:
    """The line of the innermost condition that leads to a call and not to the other; None without the text."""
    here, there = _parting(call, instead) or (None, None)
    if here is None or there is None:
        return None
    tests = [node for node in _around(here) if isinstance(node, ast.If) and not _holds(node, there.line)]
    return Frame(here.file, tests[-1].lineno, here.function) if tests else None


def _is_irregular(numbers: Sequence[int]) -> bool:
    return len(numbers) >= _RECURS and len({b - a for a, b in pairwise(numbers)}) > 1


def goes_on(of: Matched, number: int, rank: int, instead: DumpedCall) -> bool:
    """Whether the rank makes the other side's call afterwards: it has not left the loop."""
    return any(at > number and made[0].line == instead.line for at, made in of.calls[rank].items())


def _between(of: Matched, number: int, call: DumpedCall, other: int) -> bool:
    """Whether the call lies between two lines of the same function that the other side has called from before."""
    lines = []
    for at, made in of.calls[other].items():
        parted = _parting(call, made[0]) if at < number else None
        lines += [(parted[0].line, parted[1].line)] if parted else []
    return any(line < mine for mine, line in lines) and any(line > mine for mine, line in lines)


def _parting(a: DumpedCall, b: DumpedCall) -> tuple[Frame, Frame] | None:
    """The outermost frames at which two stacks part; None if these are not of one function."""
    for one, other in zip(reversed(a.stack), reversed(b.stack), strict=False):
        if one != other:
            alike = (one.file, one.function) == (other.file, other.function)
            return (one, other) if alike else None
    return None


def _inside_by_text(call: DumpedCall, instead: DumpedCall) -> bool | None:
    """Whether the loop around the other side's call holds this call, too; None without the text.

    An outer loop that holds both tells only where the condition asks for the rank: its inner one may have ended.
    """
    for frame, mine in _alike_frames(call, instead):
        loops = [node for node in reversed(_around(frame)) if isinstance(node, _LOOPS) and not _over_tensors(node)]
        if not loops:
            continue
        if mine is None or _leaves(loops[0], mine.line):
            return False
        return _holds(loops[0], mine.line) or any(
            _holds(node, mine.line) and not _holds(node, frame.line) and _ASKS_FOR_RANK.search(ast.unparse(node.test))
            for node in _nodes(frame.file)
            if isinstance(node, ast.If)
        )
    return None


def _alike_frames(call: DumpedCall, instead: DumpedCall) -> Iterator[tuple[Frame, Frame | None]]:
    """The other side's frames from the user's innermost line outwards, each with the call's frame in its place.

    That is None if it is of another function, or reached from another line.
    """
    theirs, ours = instead.stack[::-1], call.stack[::-1]
    same = next(
        (at for at, (a, b) in enumerate(zip(theirs, ours, strict=False)) if a != b), min(len(theirs), len(ours))
    )
    for at in range(len(theirs) - 1 - instead.stack.index(instead.line), -1, -1):
        mine = ours[at] if at <= same and at < len(ours) else None
        alike = mine is not None and (mine.file, mine.function) == (theirs[at].file, theirs[at].function)
        yield theirs[at], mine if alike else None


def _over_tensors(loop: ast.AST) -> bool:
    """Whether a loop goes over the tensors of one step: its rounds are no batches."""
    return isinstance(loop, ast.For) and bool(_TENSORS.search(ast.unparse(loop.iter)))


def _leaves(loop: ast.AST, line: int) -> bool:
    """Whether the branch of the loop that holds the line ends by leaving the loop."""
    bodies = [node.body for node in ast.walk(loop) if isinstance(node, ast.If) and _holds(node, line)]
    return any(_holds(body[0], line, body[-1]) and isinstance(body[-1], _LEAVES) for body in bodies)


def _around(frame: Frame) -> list[ast.AST]:
    """The nodes around a line, the outermost first."""
    return [node for node in _nodes(frame.file) if _holds(node, frame.line)]


def _holds(node: ast.AST, line: int, last: ast.AST | None = None) -> bool:
    begin, end = getattr(node, "lineno", None), getattr(last or node, "end_lineno", None)
    return begin is not None and end is not None and begin <= line <= end


@lru_cache(64)
def _nodes(file: str) -> tuple[ast.AST, ...]:
    """The loops and conditions of a file, outer ones before those in them; none if it cannot be read as Python."""
    path = Path(file)
    try:
        if path.suffix != ".py" or not path.is_file() or path.stat().st_size > _LONGEST_TEXT:
            return ()
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, (*_LOOPS, ast.If)))
