"""The inputs of one diagnosis."""

from collections.abc import Mapping, Sequence

import msgspec

from diagnose.facts import Facts
from diagnose.metrics import Measured
from diagnose.ranks import Job, RankDigest
from diagnose.rule import Judgement, Rule

Judged = Sequence[tuple[Rule, Judgement]]


class RecordedPhase(msgspec.Struct, frozen=True):
    """A slow step of the phase that comes again, as a window recorded it: what it takes beyond the usual step.

    Attributes:
        step: its number.
        window: the name of the folder of the window, "" if it is that of the diagnosis.
        shares: of that time by cause; they add up to 1.
    """

    step: int
    window: str
    shares: Mapping[str, float]


class Case(msgspec.Struct, frozen=True):
    """Everything a diagnosis rests on.

    Attributes:
        job: all ranks, joined.
        measured: the ranks that were measured in full, in order of rank.
        facts: theirs, merged.
        rules: to judge by.
        left_out: ranks whose time is not accounted as that of the others.
        only: the one rank that the diagnosis is of; None for the whole job.
        phase: a slow step of the phase that comes again, if a window holds one.
    """

    job: Job
    measured: Sequence[Measured]
    facts: Facts
    rules: Sequence[Rule]
    left_out: tuple[int, ...] = ()
    only: int | None = None
    phase: RecordedPhase | None = None

    @property
    def positions(self) -> list[int]:
        """Positions in the job of the ranks that the diagnosis is of."""
        return [at for at, rank in enumerate(self.job.ranks) if self.only in (None, rank.rank)]

    @property
    def ranks(self) -> list[RankDigest]:
        """The ranks that the diagnosis is of."""
        return [self.job.ranks[at] for at in self.positions]
