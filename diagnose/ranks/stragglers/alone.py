"""What a late rank does alone: it saves or evaluates, under `if rank == 0`, while the others wait for it.

Stack samples tell it by lines that no other rank was seen in, ranges and Python functions by names that no other rank
runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from diagnose.diagnosis.postmortem import AloneWork
from diagnose.facts import spoken
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.sampled_work import named
from diagnose.trace.python_frames import user_frame

EXPLAINS = 0.5  # part of the lateness that the work has to account for
FEWEST = 5  # samples: fewer are chance
_VERB = {"saving": "saves", "evaluating": "evaluates"}
REMEDY: Mapping[AloneWork, str] = {
    "saving": "save asynchronously or sharded, so that nobody waits",
    "evaluating": "evaluate on all ranks, each on its share",
}


class Alone(msgspec.Struct, frozen=True):
    """What a rank does alone, the place with most of it, and its share of the rank's step."""

    work: AloneWork
    where: str
    share: float

    @property
    def says(self) -> str:
        """The clause that a report prints."""
        told = f"it {_VERB[self.work]} alone, in {self.where}, for {spoken(self.share, 'share')} of its time"
        return f"{told}, while the others wait at the next collective"


def done_alone(rank: RankDigest, peers: Sequence[RankDigest], lateness_ns: float, *, runs_more: bool) -> Alone | None:
    """What the rank does and none of its peers, if that accounts for half of its lateness.

    Args:
        rank: the late rank.
        peers: the ranks that wait for it.
        lateness_ns: how far it is behind by its own doing, mean over all steps.
        runs_more: whether it runs more operators than they do, as an evaluation does: a forward pass that is slower
            is none.
    """
    found = [*_in_samples(rank, peers), *_in_names(rank, peers)]
    found = [each for each in found if runs_more or each.work == "saving"]
    most = max(found, key=lambda each: each.share, default=None)
    enough = EXPLAINS * lateness_ns * rank.steps / max(rank.total_ns, 1)
    return most if most is not None and most.share >= enough else None


def _in_samples(rank: RankDigest, peers: Sequence[RankDigest]) -> Iterator[Alone]:
    if not any(peer.sampled.samples for peer in peers):
        return
    seen = {place[1:] for peer in peers for place in peer.sampled.places}
    own = {place: count for place, count in rank.sampled.places.items() if place[1:] not in seen}
    for work in _VERB:
        counts = {place: count for place, count in own.items() if place[0] == work}
        if sum(counts.values()) >= FEWEST:
            _, file, line, function = max(counts, key=lambda place: counts[place])
            where = f"{PurePath(file).name}:{line}"
            inside = where if function.startswith("<") else f"{function} ({where})"
            yield Alone(work, inside, sum(counts.values()) / max(rank.sampled.samples, 1))  # type: ignore[arg-type]


def _in_names(rank: RankDigest, peers: Sequence[RankDigest]) -> Iterator[Alone]:
    for (kind, name), ran in rank.host_work.items():
        known = name.rpartition(": ")[2] if kind == "function" and user_frame(name) is not None else name
        work = named(known) if kind == "range" or known != name else "none"
        if work != "none" and not any((kind, name) in peer.host_work for peer in peers):
            yield Alone(work, name, ran.ns / max(rank.total_ns, 1))
