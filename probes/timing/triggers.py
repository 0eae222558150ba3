"""The settings that open windows in a run with continuous timing, as the command passes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..protocol import WINDOWS


@dataclass(frozen=True)
class Triggers:
    """The triggers.

    Args:
        when_slow: how many times the running median makes a step slow; None opens no window for slow steps.
        every: a window at each multiple of so many steps.
        at_steps: windows whose first recorded step is one of these.
        windows: that open for slow steps at most, and by `every` at most.
        signal: the name of a signal that asks for a window, such as "SIGUSR1".
    """

    when_slow: float | None = None
    every: int | None = None
    at_steps: tuple[int, ...] = ()
    windows: int = WINDOWS
    signal: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Triggers:
        """Read the settings that `to_json` gave."""
        known = {field.name: given[field.name] for field in fields(cls) if given.get(field.name) is not None}
        return cls(**{**known, "at_steps": tuple(known.get("at_steps", ()))})

    def to_json(self) -> dict[str, Any]:
        """The settings as `of` reads them."""
        return asdict(self)

    def counted(self, after: int, opened: int) -> int | None:
        """The next window by count with a first step after step `after`; `opened` of them have been opened."""
        due = [step for step in self.at_steps if step > after]
        if self.every and opened < self.windows:
            due.append((after // self.every + 1) * self.every)
        return min(due, default=None)


@dataclass(frozen=True)
class Wanted:
    """A window that is asked for.

    Args:
        why: one clause, for the report.
        step: the step that it is to hold, None for any: as soon as it can be.
        period: steps after which such a step comes again, 0 for none.
        slow: slow steps ask for it; a cool-down and a maximum limit these.
    """

    why: str
    step: int | None = None
    period: int = 0
    slow: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Wanted:
        """Read the fields that `asdict` gave; fields of another type are left out."""
        step, period = given.get("step"), given.get("period")
        return cls(
            str(given.get("why", ""))[:200],
            step if type(step) is int else None,
            period if type(period) is int and period > 0 else 0,
            given.get("slow") is True,
        )

    def first_step(self, earliest: int, active: int) -> int | None:
        """The first recorded step, from `earliest` on, of a window of `active` steps that holds it; None if it is over.

        The first of several recorded steps is not counted, so the wanted one is never the first.
        """
        if self.step is None:
            return earliest
        before = active // 2
        late = earliest + before - self.step
        if late > 0 and not self.period:
            return None
        again = -(-max(late, 0) // self.period) if self.period else 0
        return self.step + again * self.period - before
