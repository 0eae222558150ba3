"""The stacks of the training thread as a flame graph, the whole on top: a box is as wide as its share of the time."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from diagnose.diagnosis import Diagnosis, StackFrame, UserCode
from diagnose.facts import spoken
from diagnose.report.views.plain import plain
from diagnose.report.views.user_code import UserCodeView, placed, user_code_view

ROW_PX = 22
NARROWEST = 0.001  # of the whole: about a pixel of the page
FEW = 50  # samples: below it the picture says first how rough its widths are
LETTERS = 145  # that fit into the whole width of the page
_PHASES = {"step": "other code of the step", "loop": "loop of a library", "collecting": "garbage collection"}


@dataclass(frozen=True)
class Box:
    """A frame of the drawing: `x` and `width` in percent of it, `y` in pixels, `level` from 1 on.

    `kind` is "host" for the user's code, "plain" for a library's, "phase" for what the job was doing, or "others".
    """

    name: str
    says: str
    kind: str
    level: int
    x: float
    width: float

    @property
    def y(self) -> int:
        """The top of its row."""
        return (self.level - 1) * ROW_PX

    @property
    def short(self) -> str:
        """The beginning of the name that fits; "" for a few letters."""
        fits = int(self.width / 100 * LETTERS) - 1
        if len(self.name) <= fits:
            return self.name
        return f"{self.name[: fits - 1]}\u2026" if fits > 4 else ""


@dataclass(frozen=True)
class Flame:
    """The boxes in the order of the tree, and how rough their widths are; `warns` if there are few samples."""

    boxes: list[Box]
    height: int
    rough: str
    warns: bool


@dataclass(frozen=True)
class CodeSection:
    """The functions of the user, and their stacks drawn."""

    code: UserCodeView
    flame: Flame | None


def code_section(diagnosis: Diagnosis) -> CodeSection | None:
    """The section; None if nothing looked for lines."""
    view = user_code_view(diagnosis)
    return None if view is None or diagnosis.user_code is None else CodeSection(view, flame_of(diagnosis.user_code))


def flame_of(code: UserCode) -> Flame | None:
    """The drawing; None without stacks."""
    if not code.stacks:
        return None
    boxes = list(_Tree(code).boxes())
    error = (
        ""
        if code.half_error is None
        else f"a width of a half is known to ±{spoken(code.half_error, 'share')} of the whole"
    )
    return Flame(
        boxes=boxes,
        height=max(box.level for box in boxes) * ROW_PX,
        rough=error,
        warns=code.samples is not None and code.samples < FEW,
    )


class _Tree:
    """The frames by their callers, laid out from the left, those with most time first."""

    def __init__(self, code: UserCode) -> None:
        self._code = code
        self._below: dict[int, list[int]] = defaultdict(list)
        self._phases: dict[str, list[int]] = defaultdict(list)
        for at, frame in enumerate(code.stacks):
            (self._phases[frame.doing] if frame.caller < 0 else self._below[frame.caller]).append(at)

    def boxes(self) -> Iterator[Box]:
        """The whole, what the job was doing, and each frame with those that it calls behind it."""
        yield Box(f"all: {plain(self._code.of)}", plain(self._code.of), "phase", 1, 0.0, 100.0)
        inside = {doing: sum(self._share(at) for at in ats) for doing, ats in self._phases.items()}
        x = 0.0
        for doing, share in sorted(inside.items(), key=lambda item: -item[1]):
            name = _PHASES.get(doing, doing)
            yield Box(name, self._says(name, share), "phase", 2, 100 * x, 100 * share)
            yield from self._rows(self._phases[doing], x, 3, share)
            x += share
        yield from self._others(x, 1.0 - x, 2, "code that is not yours, or in frames that are left out")

    def _rows(self, ats: list[int], x: float, level: int, room: float) -> Iterator[Box]:
        """The frames side by side, each with its callees; narrow ones and those left out share a box."""
        hidden = room
        for at in ats:
            frame = self._code.stacks[at]
            hidden -= frame.share
            if frame.share < NARROWEST:
                hidden += frame.share
                continue
            yield self._box(frame, x, level)
            yield from self._rows(self._below[at], x, level + 1, frame.share - frame.own_share)
            x += frame.share
        yield from self._others(x, hidden, level, "narrow frames")

    def _box(self, frame: StackFrame, x: float, level: int) -> Box:
        name = placed(frame.function, frame.file, frame.line) if frame.line else _of_library(frame)
        kind = "host" if frame.line else "plain"
        return Box(name, self._says(name, frame.share), kind, level, 100 * x, 100 * frame.share)

    def _others(self, x: float, share: float, level: int, name: str) -> Iterator[Box]:
        if share >= NARROWEST:
            yield Box(name, self._says(name, share), "others", level, 100 * x, 100 * share)

    def _share(self, at: int) -> float:
        return self._code.stacks[at].share

    def _says(self, name: str, share: float) -> str:
        """The box in words."""
        samples = self._code.samples
        counted = "" if samples is None else f"{round(share * samples):,} samples, "
        return f"{name}, {counted}{spoken(share, 'share')}"


def _of_library(frame: StackFrame) -> str:
    return plain(f"{frame.function} ({frame.file})" if frame.file else frame.function)
