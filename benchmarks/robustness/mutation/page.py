"""What the mutants came to, as a page."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reporting import table

MOST_SURVIVING = 0.05
_ABOUT = """\
<!-- Written by `python -m benchmarks.robustness.mutation --write`. -->
# Mutants of the judgement, {day}

Each threshold is moved by a fifth, up and down (a whole number by at least one), and each comparison, flag and whole
condition is negated, one at a time. A change is noticed where an example of the rule or a case of
`tests/rule_boundaries.toml` no longer holds, one of a factor of `[whatif]` where a case of `tests/whatif_factors.toml`
does not, and one of a named number in Python where a test fails, of those that `mutation/thresholds.py` names. Units,
marks and what only bounds work are no thresholds."""


@dataclass(frozen=True)
class Tally:
    """The mutants of one kind.

    Attributes:
        kind: what was mutated.
        noticed: how many by what: an example of the rule, a case of the table, a test.
        surviving: the others, a line each.
    """

    kind: str
    noticed: Counter[str]
    surviving: tuple[str, ...]

    @property
    def count(self) -> int:
        """All of them."""
        return self.noticed.total() + len(self.surviving)


def tallied(kind: str, outcomes: Sequence[tuple[str, str]]) -> Tally:
    """The tally of mutants by their line and what notices them, "" where nothing does."""
    return Tally(
        kind,
        Counter(by for _, by in outcomes if by),
        tuple(label for label, by in outcomes if not by),
    )


def page(tallies: Sequence[Tally], day: str) -> str:
    """The report."""
    rows = []
    for tally in tallies:
        by = ", ".join(f"{count:,} by {what}" for what, count in tally.noticed.most_common())
        unnoticed = f"{len(tally.surviving):,} ({100 * len(tally.surviving) / max(tally.count, 1):.1f} %)"
        rows.append((tally.kind, f"{tally.count:,}", f"{tally.noticed.total():,}", by, unnoticed))
    parts = [_ABOUT.format(day=day), table(("what is changed", "changes", "noticed", "by", "unnoticed"), rows)]
    for tally in tallies:
        if tally.surviving:
            parts += [f"## Unnoticed: {tally.kind}", "\n".join(f"- {line}" for line in tally.surviving)]
    return "\n\n".join(parts) + "\n"
