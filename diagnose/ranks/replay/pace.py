"""A rank's work at another pace: as long as a peer's, or with micro-batches that all take equally long."""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Floats
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.replay.joint import Joint
from diagnose.ranks.replay.rank_work import RankWork
from diagnose.ranks.stages import Pipeline

Between = tuple[Hashable, Hashable]  # what precedes a piece of work, and what follows it
_BEGIN, _END = "begin", "end"


def scaled(work: RankWork, factor: float) -> RankWork:
    """The work, all of which takes so many times as long."""
    return _moved(work, np.array([0.0, work.own_ns]), np.array([0.0, factor * work.own_ns]))


def paced_as(own: RankWork, peer: RankWork) -> RankWork:
    """The rank's calls, between which it works for as long as a peer: the two may differ in some of their calls.

    Calls that both make equally often in a step mark what has been done; what lies between two marks is stretched.
    """
    theirs, mine = _places(peer), _places(own)
    pairs = [
        pair
        for call, places in mine.items()
        if len(places) == len(theirs.get(call, ()))
        for pair in zip(places, theirs[call], strict=True)
    ]
    at, to = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    done = np.concatenate(([0.0], np.maximum.accumulate(own.at[at]), [own.own_ns]))
    aim = np.concatenate(([0.0], np.maximum.accumulate(peer.at[to]), [peer.own_ns]))
    return _moved(own, done, aim)


def _places(work: RankWork) -> dict[tuple[int, int], list[int]]:
    """The events of each call in each step."""
    places: dict[tuple[int, int], list[int]] = defaultdict(list)
    for event, call in enumerate(zip(work.step.tolist(), work.called.tolist(), strict=True)):
        places[call].append(event)
    return places


def with_even_batches(ranks: Sequence[RankDigest], joint: Joint, pipeline: Pipeline, late: Collection[int]) -> Joint:
    """The job whose micro-batches all take as long as the mean one takes its stage.

    Pieces of work are alike if the same messages and collectives precede and follow them. A rank that is late by itself
    keeps its own pace.
    """
    even = {}
    for stage in pipeline.stages:
        pieces = {p: _pieces(ranks[p], joint.work[p], ranks, pipeline) for p in stage}
        usual = _means([pieces[p] for p in stage if p not in late])
        for p, (kinds, ns) in pieces.items():
            own = _means([pieces[p]])
            like = own if p in late else own | usual
            aim = np.array([like[kind] for kind in kinds])
            even[p] = _moved(joint.work[p], _sums(ns), _sums(aim))
    return joint.with_work(even)


def _pieces(
    rank: RankDigest, work: RankWork, ranks: Sequence[RankDigest], pipeline: Pipeline
) -> tuple[list[Between], Floats]:
    """The work between two events of a rank: what it is, and how long it takes."""
    stage_of = {ranks[p].rank: number for number, stage in enumerate(pipeline.stages) for p in stage}
    messages: dict[int, list[tuple[bool, int]]] = defaultdict(list)
    for row, sender, receiver in rank.calls.messages.tolist():
        sends = sender == rank.rank
        messages[row].append((sends, stage_of.get(receiver if sends else sender, -1)))
    event = [
        tuple(sorted(messages[row])) or call for row, call in zip(work.row.tolist(), work.called.tolist(), strict=True)
    ]
    around = [_BEGIN, *event, _END]
    at = np.concatenate(([0.0], np.maximum.accumulate(work.at), [work.own_ns]))
    return list(pairwise(around)), np.diff(at)


def _means(of_ranks: Sequence[tuple[list[Between], Floats]]) -> dict[Between, float]:
    sums: dict[Between, float] = defaultdict(float)
    count: Counter[Between] = Counter()
    for kinds, ns in of_ranks:
        count.update(kinds)
        for kind, each in zip(kinds, ns.tolist(), strict=True):
            sums[kind] += each
    return {kind: sums[kind] / count[kind] for kind in sums}


def _sums(ns: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(ns)))


def _moved(work: RankWork, done: Floats, aim: Floats) -> RankWork:
    """The work, of which `aim` takes the place of each amount in `done`; both do not fall, and begin with 0."""

    def moved(at: Floats) -> Floats:
        return np.asarray(np.interp(at, done, aim))

    return replace(
        work, at=moved(work.at), ready=moved(work.ready), block_at=moved(work.block_at), own_ns=float(aim[-1])
    )
