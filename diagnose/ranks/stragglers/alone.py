"""Work that a late rank does alone: it saves or evaluates, under `if rank == 0`, while the others wait for it.

Stack samples show it by functions in which no other rank was seen, traces by ranges and Python functions that no other
rank runs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

import msgspec

from diagnose.diagnosis.postmortem import AloneWork
from diagnose.facts import spoken
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.sampled_work import Place, named
from diagnose.trace.python_frames import user_frame

EXPLAINS = 0.5  # part of the lateness that the work has to account for
FEWEST = 5  # samples: fewer are chance
_VERB: Mapping[AloneWork, str] = {"saving": "saves", "evaluating": "evaluates"}
REMEDY: Mapping[AloneWork, str] = {
    "saving": "save asynchronously or sharded, so that nobody waits",
    "evaluating": "evaluate on all ranks, each on its share",
}


class Alone(msgspec.Struct, frozen=True):
    """Work of a rank alone, the place with most of it, and its share of the rank's step."""

    work: AloneWork
    where: str
    share: float

    @property
    def says(self) -> str:
        """The clause that a report prints."""
        told = f"it {_VERB[self.work]} alone, in {self.where}, for {spoken(self.share, 'share')} of its time"
        return f"{told}, while the others wait at the next collective"


def done_alone(rank: RankDigest, peers: Sequence[RankDigest], lateness_ns: float, *, runs_more: bool) -> Alone | None:
    """The work that the rank does and none of its peers, if that accounts for half of its lateness.

    Args:
        rank: the late rank.
        peers: the ranks that wait for it.
        lateness_ns: how far it is behind by its own doing, mean over all steps.
        runs_more: whether it runs more operators than they do, as an evaluation does: a forward pass that is slower
            is none.
    """
    found = [*_in_samples(rank, peers, runs_more), *_in_names(rank, peers)]
    most = max(found, key=lambda each: each.share, default=None)
    enough = EXPLAINS * lateness_ns * rank.steps / max(rank.total_ns, 1)
    return most if most is not None and most.share >= enough else None


def _in_samples(rank: RankDigest, peers: Sequence[RankDigest], runs_more: bool) -> Iterator[Alone]:
    """The work in functions in which no peer was seen; of forward passes, at lines at which none was."""
    if not any(peer.sampled.samples for peer in peers):
        return
    seen = [place for peer in peers for place in peer.sampled.places]
    lines, functions = {place[1:3] for place in seen}, {(place[1], place[3]) for place in seen}
    counts: dict[AloneWork, Counter[Place]] = {work: Counter() for work in _VERB}
    for place, count in rank.sampled.places.items():
        kind, file, line, function = place
        is_own = (file, function) not in functions
        if kind == "forward":
            is_own = runs_more and (file, line) not in lines
        if is_own and kind != "none":
            counts["evaluating" if kind == "forward" else kind][place] += count
    for work, places in counts.items():
        if places.total() >= FEWEST:
            _, file, line, function = places.most_common(1)[0][0]
            at = f"{PurePath(file).name}:{line}"
            where = at if function.startswith("<") else f"{function} ({at})"
            yield Alone(work, where, places.total() / max(rank.sampled.samples, 1))


def _in_names(rank: RankDigest, peers: Sequence[RankDigest]) -> Iterator[Alone]:
    for (kind, name), ran in rank.host_work.items():
        known = name.rpartition(": ")[2] if kind == "function" and user_frame(name) is not None else name
        work = named(known) if kind == "range" or known != name else "none"
        if work != "none" and not any((kind, name) in peer.host_work for peer in peers):
            yield Alone(work, name, ran.ns / max(rank.total_ns, 1))
