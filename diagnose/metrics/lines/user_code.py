"""The user's code and the time that a thread spends in it: one type for samples of the stack and for recorded calls."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar

import msgspec

from diagnose.metrics.lines.callees import Called, deepest_call
from diagnose.probes.stacks.named import what_loads
from diagnose.trace.stacks import Frame

Function = tuple[str, str]  # file and name; one of the same name elsewhere in the file counts as the same
SAMPLES, CALLS = "samples", "calls"
NEARLY_ALWAYS = 0.98  # of the samples: the script, its main function, the loop around everything
MOSTLY = 0.8
Key = TypeVar("Key", Function, int, str)


def function_of(frame: Frame) -> Function:
    """The function that a line is of."""
    return frame.file, frame.function


class Spent(msgspec.Struct, frozen=True):
    """Time on one stack of the user's frames.

    Attributes:
        frames: the outermost first, at least one; calls of the last into libraries and C are part of its time.
        doing: one of `trace.python_frames.DOINGS`.
        calls: the function of a library or in C that the last frame was calling, "" if none or unknown.
        weight: samples, or nanoseconds of recorded calls.
        below: file and name of the libraries' functions that the last frame had called, the outermost first; None if
            they are not known.
    """

    frames: tuple[Frame, ...]
    doing: str
    calls: str
    weight: float
    below: tuple[Function, ...] | None = None

    @property
    def once(self) -> dict[Function, Frame]:
        """Each function of the stack at its innermost frame, the outermost first: one that calls itself counts once."""
        return {function_of(frame): frame for frame in self.frames}


class FunctionTime(msgspec.Struct, frozen=True):
    """A function of the user with its time, the line and the purpose of most of it, and the frame inside which most of
    it is.

    `most_in` is None if that is the function itself or there is no single one. `calls` is the function of a library or
    in C that most of it calls, None if there is none.
    """

    function: Function
    line: int
    doing: str
    weight: float
    most_in: Frame | None = None
    calls: Called | None = None


class ThreadWork(msgspec.Struct, frozen=True, dict=True):
    """The activity of one thread, with the user's code as a part of it.

    Attributes:
        stacks: those with code of the user.
        whole: samples, or nanoseconds, of the thread altogether.
        of: a description of `whole`.
        source: SAMPLES or CALLS.
        step_ns: duration of the steps in which this was seen.
    """

    stacks: tuple[Spent, ...]
    whole: float
    of: str
    source: str
    step_ns: float

    @cached_property
    def own(self) -> list[FunctionTime]:
        """Time at the functions' own lines, most first."""
        return summed((stack.frames[-1], stack) for stack in self.stacks)

    @cached_property
    def altogether(self) -> list[FunctionTime]:
        """Time of the functions while they were on the stack, what they call included, most first."""
        return summed((frame, stack) for stack in self.stacks for frame in stack.once.values())

    def spent_by(self, chosen: Callable[[Spent], bool]) -> list[FunctionTime]:
        """Time of the chosen stacks by the function it is attributed to, most first.

        That is the outermost function that does little else or, if each around it does other things, the innermost.
        What runs below a loader is attributed to the innermost: the dataset's or the transform's, never the loop's.
        """
        stacks = [stack for stack in self.stacks if chosen(stack)]
        inside: dict[Function, float] = defaultdict(float)
        for stack in stacks:
            for function in stack.once:
                inside[function] += stack.weight
        return summed((entry(stack, self.devoted(inside)), stack) for stack in stacks)

    def devoted(self, weights: Mapping[Function, float]) -> frozenset[Function]:
        """The functions of whose time most is in these weights, but for what is around nearly everything, and for what
        several lines call: a decorator, a helper.
        """
        everything = sum(stack.weight for stack in self.stacks)
        return frozenset(
            each.function
            for each in self.altogether
            if each.weight < NEARLY_ALWAYS * everything
            if weights.get(each.function, 0.0) >= MOSTLY * each.weight
            if self._called_by_one_line[each.function] >= MOSTLY * each.weight
        )

    @cached_property
    def _called_by_one_line(self) -> dict[Function, float]:
        """The time of each function when called from the line that calls it most; the outermost have one caller."""
        by_line: dict[Function, dict[Frame | None, float]] = defaultdict(lambda: defaultdict(float))
        for stack in self.stacks:
            callers: dict[Function, Frame | None] = {}
            for frame, caller in zip(stack.frames, (None, *stack.frames), strict=False):
                callers.setdefault(function_of(frame), caller)
            for function, caller in callers.items():
                by_line[function][caller] += stack.weight
        return {function: max(lines.values()) for function, lines in by_line.items()}

    def share(self, weight: float) -> float:
        """The weight as a share of the whole."""
        return min(weight / max(self.whole, 1e-9), 1.0)

    def ns(self, weight: float) -> float:
        """Nanoseconds of one step that the weight amounts to."""
        return weight / max(self.whole, 1e-9) * self.step_ns

    def weight(self, ns: float) -> float:
        """The weight of so long in each step."""
        return ns / max(self.step_ns, 1e-9) * self.whole


def entry(stack: Spent, functions: frozenset[Function]) -> Frame:
    """The frame of the outermost of the functions on the stack, else the innermost frame, as always of loading."""
    if stack.doing == "loading":
        return what_loads(stack.frames)
    return next((frame for function, frame in stack.once.items() if function in functions), stack.frames[-1])


def summed(parts: Iterable[tuple[Frame, Spent]]) -> list[FunctionTime]:
    """The stacks by the function that each counts for, most time first; of equal ones the first in its file."""
    of: dict[Function, list[tuple[Frame, Spent]]] = defaultdict(list)
    for frame, stack in parts:
        of[function_of(frame)].append((frame, stack))
    found = [_function_time(function, own) for function, own in of.items()]
    return sorted(found, key=lambda each: (-each.weight, each.function[0], each.line))


def _function_time(function: Function, parts: list[tuple[Frame, Spent]]) -> FunctionTime:
    weight = sum(stack.weight for _, stack in parts)
    inner, inside = _most((function_of(stack.frames[-1]), stack.weight) for _, stack in parts)
    deeper = (stack for _, stack in parts if function_of(stack.frames[-1]) == inner)
    line, _ = _most((stack.frames[-1].line, stack.weight) for stack in deeper)
    return FunctionTime(
        function,
        _most((frame.line, stack.weight) for frame, stack in parts)[0],
        _most((stack.doing, stack.weight) for _, stack in parts)[0],
        weight,
        Frame(inner[0], line, inner[1]) if inner != function and 2 * inside > weight else None,
        deepest_call([(stack.below, stack.calls, stack.weight) for _, stack in parts]),
    )


def _most(weighted: Iterator[tuple[Key, float]]) -> tuple[Key, float]:
    """The key with the largest total weight, and that weight."""
    total: dict[Key, float] = defaultdict(float)
    for what, weight in weighted:
        total[what] += weight
    return max(total.items(), key=lambda item: item[1])
