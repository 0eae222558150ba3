"""The lines of the user's code that a rule's finding names."""

import msgspec

from diagnose.facts import Facts
from diagnose.rule.condition import Condition

LOADING, COLLECTING = "loading", "collecting"


class Lines(msgspec.Struct, frozen=True):
    """Chooses lines by what the training thread does there, by what they call, or by what one rank does alone.

    Attributes:
        doing: some of `Doing`; none asks for nothing.
        calls: names of functions of libraries or in C; none asks for nothing.
        excess: the lines of the latest rank, by what it spends there beyond the others.
        phase: those of the steps of the phase that comes every so many steps.
        holds: without it no line is named.
    """

    doing: frozenset[str]
    calls: frozenset[str]
    excess: bool
    phase: bool
    holds: Condition | None

    def apply(self, facts: Facts) -> bool:
        """Whether lines are named in this job."""
        return self.holds is None or self.holds.evaluate(facts) is True

    def choose(self, doing: str, calls: str) -> bool:
        """Whether a line is one of these."""
        return (not self.doing or doing in self.doing) and (not self.calls or calls in self.calls)

    @property
    def told(self) -> str:
        """A description of these lines."""
        doing, calls = (" or ".join(sorted(names)) for names in (self.doing, self.calls))
        parts = (doing and f"of {doing}", calls and f"that call {calls}", *self._of)
        text = " ".join(part for part in parts if part)
        return f"lines {text}, where {self.holds.text}" if self.holds else f"lines {text}"

    @property
    def _of(self) -> tuple[str, str]:
        return "beyond the other ranks" if self.excess else "", "of the slow steps" if self.phase else ""

    @property
    def of_loading(self) -> bool:
        """Whether they are those of what loads batches, which with loader workers other processes do."""
        return self.doing == {LOADING}

    @property
    def of_collector(self) -> bool:
        """Whether they are those at which Python collects garbage."""
        return self.doing == {COLLECTING}
