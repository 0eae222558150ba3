"""A job's ranks joined: waiting is taken out of exposed communication and given to what made a rank late."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from diagnose import intervals as iv
from diagnose.attribution import EXPOSED, Attribution
from diagnose.facts import Unknown
from diagnose.ranks.bandwidth import bus_rate
from diagnose.ranks.blame import Blame, blame_of, lateness_of, main_class, waiting_caused, waits
from diagnose.ranks.match import Match, match
from diagnose.timeline import Timeline

_SINGLE = Unknown("one rank cannot tell transfer from waiting", "pass the traces of all ranks of the job")


@dataclass(frozen=True)
class JobView:
    """What a rank's metrics know of the other ranks."""

    ranks: int = 1
    matched: bool = False
    why_unmatched: Unknown = _SINGLE
    straggler_share: float = 0.0
    straggler_cause: str = "none"
    bus_bytes_per_s: float | Unknown = _SINGLE


@dataclass(frozen=True)
class Job:
    """The ranks with waiting told apart from transfer, and who caused it."""

    view: JobView
    attributions: tuple[Attribution, ...]
    blames: tuple[Blame, ...] = ()

    @property
    def stragglers(self) -> tuple[Blame, ...]:
        """The ranks that stand out."""
        return tuple(b for b in self.blames if b.stands_out)


def join(timelines: Sequence[Timeline], attributions: Sequence[Attribution]) -> Job:
    """Matches the collectives of all ranks and divides their exposed time into transfer and waiting."""
    found = match(list(timelines))
    if isinstance(found, Unknown):
        return Job(JobView(len(timelines), why_unmatched=found, bus_bytes_per_s=found), tuple(attributions))
    lateness = lateness_of(attributions, found)
    classes = [main_class(attributions[entry.late], entry.excess) for entry in lateness]
    blames = blame_of(timelines, attributions, lateness, waiting_caused(attributions, found, lateness))
    worst = next((b for b in blames if b.stands_out), None)
    view = JobView(
        ranks=len(timelines),
        matched=True,
        straggler_share=worst.share if worst else 0.0,
        straggler_cause=worst.cause if worst else "none",
        bus_bytes_per_s=bus_rate(timelines[0], found),
    )
    divided = tuple(_divided(a, found, r, classes) for r, a in enumerate(attributions))
    return Job(view, divided, tuple(blames))


def _divided(attribution: Attribution, found: Match, rank: int, classes: list[str]) -> Attribution:
    exposed = attribution.pieces(EXPOSED)
    left, parts = exposed, []
    for class_ in sorted(set(classes)):
        own = np.array([c == class_ for c in classes], bool)
        pieces = iv.intersect(left, waits(found, rank, own))
        left = iv.subtract(left, pieces)
        parts.append((f"late-rank-{class_}", class_, pieces))
    return _with_parts(attribution, left, parts)


def _with_parts(
    attribution: Attribution, exposed: iv.Intervals, parts: list[tuple[str, str, iv.Intervals]]
) -> Attribution:
    if EXPOSED not in attribution.causes:
        return attribution
    number = attribution.causes.index(EXPOSED)
    keep = attribution.cause != number
    causes = attribution.causes + tuple(name for name, _, _ in parts)
    start = [attribution.start[keep], exposed[:, 0], *(p[:, 0] for _, _, p in parts)]
    end = [attribution.end[keep], exposed[:, 1], *(p[:, 1] for _, _, p in parts)]
    cause = [attribution.cause[keep], np.full(len(exposed), number, np.int32)]
    cause += [np.full(len(p), len(attribution.causes) + i, np.int32) for i, (_, _, p) in enumerate(parts)]
    order = np.argsort(np.concatenate(start), kind="stable")
    return replace(
        attribution,
        start=np.concatenate(start)[order],
        end=np.concatenate(end)[order],
        cause=np.concatenate(cause)[order].astype(np.int32),
        causes=causes,
        classes=attribution.classes + tuple(c for _, c, _ in parts),
    )
