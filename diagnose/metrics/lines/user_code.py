"""Where the user's code spends the time of a thread: one shape for samples of the stack and for recorded calls."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from diagnose.trace.stacks import Frame

Function = tuple[str, str]  # file and name
SAMPLES, CALLS = "samples", "calls"


@dataclass(frozen=True)
class Spent:
    """Time at a line of the user's code.

    Attributes:
        frame: the line.
        doing: one of `trace.python_frames.DOINGS`.
        calls: the function of a library or in C that the line was calling, "" where none or not known.
        weight: samples, or nanoseconds of recorded calls.
    """

    frame: Frame
    doing: str
    calls: str
    weight: float

    @property
    def function(self) -> Function:
        """The function that the line is of; one of the same name elsewhere in the file counts as the same."""
        return self.frame.file, self.frame.function


@dataclass(frozen=True)
class UserCode:
    """What one thread did, of which the user's code is a part.

    Attributes:
        innermost: time at the innermost lines of the user, what these call in libraries and in C included.
        on_stack: time of every function while it was on the stack, once for each, what it calls included.
        whole: samples, or nanoseconds, of the thread altogether.
        of: what `whole` is, in words.
        source: SAMPLES or CALLS.
        step_ns: how long a step took in which this was seen.
    """

    innermost: tuple[Spent, ...]
    on_stack: tuple[Spent, ...]
    whole: float
    of: str
    source: str
    step_ns: float

    def share(self, weight: float) -> float:
        """The weight as a share of the whole."""
        return min(weight / max(self.whole, 1e-9), 1.0)

    def ns(self, weight: float) -> float:
        """How long the weight is in one step."""
        return weight / max(self.whole, 1e-9) * self.step_ns

    def weight(self, ns: float) -> float:
        """The weight of so long in each step."""
        return ns / max(self.step_ns, 1e-9) * self.whole


@dataclass(frozen=True)
class FunctionTime:
    """A function of the user with its time, and the line and the doing that most of it goes to."""

    function: Function
    line: int
    doing: str
    weight: float


def by_function(spent: Iterable[Spent]) -> list[FunctionTime]:
    """The functions, most time first; of equal ones that which comes first in its file."""
    parts: dict[Function, list[Spent]] = defaultdict(list)
    for each in spent:
        parts[each.function].append(each)
    found = [
        FunctionTime(
            function,
            int(_most((part.frame.line, part.weight) for part in own)),
            str(_most((part.doing, part.weight) for part in own)),
            sum(part.weight for part in own),
        )
        for function, own in parts.items()
    ]
    return sorted(found, key=lambda each: (-each.weight, each.function[0], each.line))


def _most(weighted: Iterable[tuple[int | str, float]]) -> int | str:
    """What has most weight altogether."""
    total: dict[int | str, float] = defaultdict(float)
    for what, weight in weighted:
        total[what] += weight
    return max(total, key=lambda what: total[what])
