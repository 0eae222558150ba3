"""The stages of a pipeline: which ranks make up each, in which order a batch passes them, and in how many parts.

Ranks of one stage do the same work, those of two stages need not: a rank is compared with the others of its stage.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from diagnose.arrays import Ints, Mask
from diagnose.ranks.collectives.kinds import SEND_RECEIVE, plain_kind
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.collectives.process_groups import ProcessGroup
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.stragglers.lateness import is_point_to_point

Stage = tuple[int, ...]  # positions of its ranks
SHOWN = 16  # ranks of a stage that are listed
NEGLIGIBLE_BYTES = 1024  # of a message: one so small carries sizes, not activations


class Pipeline(msgspec.Struct, frozen=True):
    """A job whose ranks pass on their work.

    Attributes:
        stages: its stages, in the order in which a batch passes them.
        replicas: the copies of the model, each with its ranks in the order of the stages; those with a rank of every
            stage.
        micro_batches: parts in which a stage gets the batch of a step; None if the messages do not show it.
    """

    stages: tuple[Stage, ...]
    replicas: tuple[tuple[int, ...], ...]
    micro_batches: int | None = None

    def beside_each(self, count: int) -> Mask:
        """Mask of the ranks of each rank's stage, shape (ranks, ranks)."""
        mask = np.eye(count, dtype=bool)
        for stage in self.stages:
            mask[np.ix_(stage, stage)] = True
        return mask

    def beyond_its_stage(self, waiting: Ints) -> Ints:
        """The waiting for each rank beyond that for any rank of its stage, of shape (ranks, steps).

        Stages wait for each other by design. For a stage of one rank it is not known how much that is.
        """
        beyond = waiting.copy()
        for stage in self.stages:
            if len(stage) > 1:
                beyond[list(stage)] -= waiting[list(stage)].min(axis=0)
        return beyond

    def beside(self, position: int) -> Stage:
        """The ranks of a rank's stage, with itself."""
        return next((stage for stage in self.stages if position in stage), (position,))

    def named(self, stage: Stage, ranks: Sequence[RankDigest]) -> str:
        """`stage 3 (ranks 6, 7)`; stages count from 0."""
        numbers = [str(ranks[p].rank) for p in stage]
        noun = "rank" if len(numbers) == 1 else "ranks"
        more = f" and {len(numbers) - SHOWN} more" if len(numbers) > SHOWN else ""
        return f"stage {self.stages.index(stage)} ({noun} {', '.join(numbers[:SHOWN])}{more})"


def pipeline_of(ranks: Sequence[RankDigest], matched: Match) -> Pipeline | None:
    """The stages of a job; None without messages between single ranks, or if these pass through one stage only.

    Messages join the ranks of one replica of the model. A group of at most one rank of each replica is of one stage:
    others, such as that of a shared embedding or of the whole job, are not. Ranks without a trace join others, too.
    """
    links = _links(ranks)
    replicas = _joined(links)
    replica = {number: at for at, of in enumerate(replicas) for number in of}
    position = {rank.rank: p for p, rank in enumerate(ranks) if rank.rank in replica}
    groups = [group.ranks for rank in ranks for group in rank.calls.groups if group.ranks]
    groups += [tuple(ranks[p].rank for p in group.members.tolist()) for group in matched if not group.paired]
    alike = [group for group in dict.fromkeys(groups) if _is_of_one_stage(group, replica)]
    joined = _joined([*alike, *((number,) for number in position)])
    stages = [tuple(sorted(position[n] for n in of if n in position)) for of in joined]
    stages = [stage for stage in stages if stage]
    if len(stages) < 2:
        return None
    ordered = _in_order(ranks, stages)
    chains = [[next((p for p in stage if ranks[p].rank in of), None) for stage in ordered] for of in replicas]
    whole = tuple(tuple(p for p in chain if p is not None) for chain in chains if None not in chain)
    return Pipeline(ordered, whole, _micro_batches(ranks, ordered))


def comparable(ranks: Sequence[RankDigest], matched: Match, pipeline: Pipeline | None) -> tuple[bool, ...]:
    """Whether the ranks of each group can be late beside each other: they do the same work, and send no messages.

    If a pipeline has one rank in each stage, the largest groups across its stages have to do.
    """
    if pipeline is None:
        return tuple(not is_point_to_point(ranks, group) for group in matched)
    others = [not is_point_to_point(ranks, group) for group in matched]
    inside = [alone and _within_one(pipeline, group) for alone, group in zip(others, matched, strict=True)]
    if any(inside):
        return tuple(inside)
    largest = max((len(group.members) for alone, group in zip(others, matched, strict=True) if alone), default=0)
    return tuple(alone and len(group.members) == largest for alone, group in zip(others, matched, strict=True))


def _within_one(pipeline: Pipeline, group: GroupMatch) -> bool:
    members = set(group.members.tolist())
    return members <= set(pipeline.beside(min(members)))


def _links(ranks: Sequence[RankDigest]) -> list[tuple[int, ...]]:
    """Numbers of the ranks that send to each other; all ranks of a group whose sends do not say between whom."""
    ends = {tuple(sorted(ends)) for rank in ranks for ends in rank.calls.messages[:, 1:].tolist()}
    linked = [pair for pair in ends if pair[0] != pair[1]]
    if linked:
        return linked
    sending = {group.ranks for rank in ranks for group in _sending(rank)}
    return [group for group in sending if 1 < len(group) < len(ranks)]


def _sending(rank: RankDigest) -> list[ProcessGroup]:
    sends = [number for number, kind in enumerate(rank.calls.kinds) if plain_kind(kind) == SEND_RECEIVE]
    return [rank.calls.groups[g] for g in np.unique(rank.calls.group[np.isin(rank.calls.kind, sends)]).tolist()]


def _is_of_one_stage(group: Sequence[int], replica: dict[int, int]) -> bool:
    known = [replica[number] for number in group if number in replica]
    return len(known) == len(group) == len(set(known))


def _joined(groups: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """The numbers that groups join, directly or by others."""
    first: dict[int, int] = {}

    def root(number: int) -> int:
        while first.setdefault(number, number) != number:
            number = first[number]
        return number

    for group in groups:
        roots = sorted({root(number) for number in group})
        first.update(dict.fromkeys(roots, roots[0]))
    members: dict[int, list[int]] = {}
    for number in sorted(first):
        members.setdefault(root(number), []).append(number)
    return [tuple(members[number]) for number in sorted(members)]


def _in_order(ranks: Sequence[RankDigest], stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """The stages as a batch passes them: each but the first begins its steps with what it receives from the one before.

    If the messages do not form one chain, their ranks give the order.
    """
    stage_of = {ranks[p].rank: at for at, stage in enumerate(stages) for p in stage}
    before = [_before(ranks, stage, stage_of) for stage in stages]
    by_rank = tuple(sorted(stages))
    chain = [at for at, source in enumerate(before) if source is None][:1]
    while chain and chain[-1] in before and len(chain) < len(stages):
        chain.append(before.index(chain[-1]))
    return tuple(stages[at] for at in chain) if len(set(chain)) == len(stages) else by_rank


def _before(ranks: Sequence[RankDigest], stage: Stage, stage_of: dict[int, int]) -> int | None:
    """The stage whose messages the stage's steps mostly begin with; None if they begin with a message that it sends."""
    found: Counter[int | None] = Counter()
    for p in stage:
        calls = ranks[p].calls
        order = np.argsort(calls.messages[:, 0], kind="stable")
        messages = calls.messages[order]
        _, first = np.unique(calls.step[messages[:, 0]], return_index=True)
        found.update(
            stage_of.get(sender) if sender != ranks[p].rank else None for _, sender, _ in messages[first].tolist()
        )
    return max(found, key=lambda source: found[source], default=None)


def _micro_batches(ranks: Sequence[RankDigest], stages: Sequence[Stage]) -> int | None:
    """Messages that the first stage sends to the second in a step, but for those of an interleaved schedule's rounds.

    There the last stage sends to the first one what comes round again: once less than the others send on.
    """
    around = _sent(ranks, stages[-1], stages[0]) if len(stages) > 2 else 0.0
    count = round(_sent(ranks, stages[0], stages[1]) - around)
    return count if count > 0 else None


def _sent(ranks: Sequence[RankDigest], source: Stage, target: Stage) -> float:
    """Messages with activations that a rank of one stage sends to those of another in a step, the median."""
    targets, counts = {ranks[p].rank for p in target}, []
    for rank in (ranks[p] for p in source):
        row, sender, receiver = rank.calls.messages.T
        size = rank.calls.bytes[row]
        sent = (sender == rank.rank) & np.isin(receiver, list(targets)) & ((size < 0) | (size >= NEGLIGIBLE_BYTES))
        counts += [int((rank.calls.step[row[sent]] == number).sum()) for number in rank.numbers]
    return float(np.median(counts)) if counts else 0.0
