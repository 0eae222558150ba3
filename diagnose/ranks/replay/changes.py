"""Predict the effect of changes on the step of the whole job, by the joint replay of its ranks."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose import intervals as iv
from diagnose.arrays import Mask
from diagnose.diagnosis.postmortem import NO_DATA_WAIT, NO_STRAGGLER, JobChange
from diagnose.facts import Unknown, spoken
from diagnose.formulas import share
from diagnose.formulas.collectives import bus_bytes_per_s, nic_rate, transfer_s
from diagnose.formulas.size_curve import NETWORK_LATENCY_S, GroupLinks
from diagnose.formulas.throughput import gpu_hours_lost_per_day
from diagnose.ranks.collectives.kinds import SEND_RECEIVE
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.collectives.process_groups import named_ranks
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.network.slow_links import SlowLink
from diagnose.ranks.network.topology import Topology
from diagnose.ranks.pipeline import StageWork, with_equal_stages
from diagnose.ranks.replay.buckets import BUCKET_BYTES, MESSAGE_NS, buckets_of, described, larger, smaller
from diagnose.ranks.replay.data_waits import loads_late, without_data_waits
from diagnose.ranks.replay.joint import Joint, joint_of
from diagnose.ranks.replay.pace import paced_as, scaled, with_even_batches
from diagnose.ranks.replay.rank_work import RankWork, stray_share
from diagnose.ranks.replay.rounds import Case
from diagnose.ranks.stragglers.lateness import is_point_to_point
from diagnose.ranks.stragglers.waits import RankWaits

MOST_ERROR = 0.05
LEAST_GAIN = 1.005  # of the best case; less is not worth a line
LATENCY_NS: dict[Case, float] = {"worst": 40_000.0, "best": 10_000.0}  # of a collective, which no bandwidth shortens
CONTENTION: dict[Case, float] = {"worst": 0.2, "best": 0.0}  # kernels last longer by so much of what they newly hide
CASES: tuple[Case, Case] = ("worst", "best")
StepNs = Callable[[Case], float]
Candidate = tuple[str, str, StepNs]
Cure = tuple[str, str, Callable[[Case], Joint]]
LATE = "late ranks are as fast as the slowest (low) and the median (high) of the ranks that do the same work"
LOADED = "no rank waits for data: workers load it ahead, or loading leaves the run"
EQUAL_STAGES = "equal stages"
EQUAL = (
    "heavier stages work as long as the usual one (high), or as the longest of the others (low; if they run more or "
    "larger kernels, that surplus moves to the others)"
)
EVEN_BATCHES = "even micro-batches"
EVEN = "every micro-batch takes each stage as long as the mean one"
MENDED = "slow links are as fast as those of the other groups"
_SLOWED = f"by {100 * CONTENTION['worst']:.0f} % of those at worst"
_LATENCY, _LESS = (" to ".join(f"{ns / 1e3:.0f}" for ns in sorted(each.values())) for each in (LATENCY_NS, MESSAGE_NS))
HIDDEN = f"no kernel waits for a collective; kernels beside the transfers last longer {_SLOWED}"
IN_STAGES = "; the stages of the pipeline wait for each other as before"
FASTER = f"transfers take half the time, but for {_LATENCY} us of latency each"
LARGER = f"gradients travel in messages of twice the size; one message less saves {_LESS} us"
SMALLER = f"gradients travel in messages of half the size, the first half earlier; one more costs {_LESS} us"
HYBRID = (
    "parameters are sharded inside a node, at 60 to 100 % of the bandwidth expected there, and each GPU reduces its "
    "shard between the nodes at the rate measured now; each node has to hold a whole state"
)


class Changes(msgspec.Struct, frozen=True):
    """Predicted changes. `error` is that of the unchanged replay, None without one; `because` is why they are
    withheld.
    """

    changes: tuple[JobChange, ...] = ()
    error: float | None = None
    because: str = ""

    def of(self, name: str) -> JobChange | None:
        """The change of a name; None if it gains too little, or nothing is replayed."""
        return next((change for change in self.changes if change.change == name), None)

    def untold(self, name: str) -> str:
        """The reason why the replay does not show what a change saves, "" if it does."""
        change = self.of(name)
        return self.because or ("" if change is None else change.because)

    def saved(self, name: str) -> tuple[float, float] | None:
        """Share of the step that a change saves, least and most; None if the replay does not show it."""
        if self.untold(name):
            return None
        change = self.of(name)
        low, high = (None if change is None else change.speedup) or (1.0, 1.0)
        return 1 - 1 / low, 1 - 1 / high

    def unpriced(self) -> "Changes":
        """The same without what late ranks cost in a day, which is not known of a rank that is only suspected."""
        return replace(self, changes=tuple(replace(change, gpu_hours_per_day=None) for change in self.changes))


def changes_of(
    ranks: Sequence[RankDigest],
    matched: Match,
    late: Sequence[int],
    topology: Topology,
    slow: Sequence[SlowLink] = (),
    stages: StageWork | None = None,
    waits: Sequence[RankWaits] = (),
) -> Changes:
    """The gain of the job's step by each change; withheld if the replay misses a rank's step by 5 %.

    A cure's gain is unknown if the replay would not lose the waiting that the cure ends, or the late ranks' work.

    Args:
        ranks: ranks of the job.
        matched: their collectives.
        late: positions of the ranks that stand out by their own work.
        topology: topology of the job.
        slow: links that make ranks stand out.
        stages: the stages of a pipeline, with their work.
        waits: the waiting of each rank.
    """
    if not matched:
        return Changes()
    joint = joint_of(ranks, matched)
    if isinstance(joint, Unknown):
        return Changes(because=joint.because)
    error = joint.strict_error
    if math.isinf(error):
        return Changes(because="the steps of one of the ranks take no time")
    if not error <= MOST_ERROR:
        away = f"{spoken(error, 'share')} away from the measured step of one of them"
        return Changes((), error, f"the replay of all ranks is {away}")
    now = joint.job_step_ns()
    kept = _kept(ranks, joint, waits)
    cures = (*_cures(matched, late, slow, joint, stages), *_loaded(ranks, late, joint))
    cures = (*cures, *_evened(ranks, late, joint, stages))
    made = [
        *(_cure(cure, now, kept or _as_before(ranks, late, joint, cure)) for cure in cures),
        *(_change(name, says, now, step) for name, says, step in _candidates(ranks, matched, topology, joint)),
    ]
    return Changes(tuple(_with_cost(change, ranks) for change in made if _is_told(change)), error)


def _is_told(change: JobChange) -> bool:
    """Whether a change is worth a line: what late ranks cost always is, and so is a cure of unknown gain."""
    return change.speedup is None or change.speedup[1] >= LEAST_GAIN or change.change == NO_STRAGGLER


def _cure(cure: Cure, now_ns: float, because: str) -> JobChange:
    """A cure, with its gain unless there is a reason why the replay does not show it."""
    name, says, cured = cure
    if because:
        return JobChange(change=name, says=says, speedup=None, because=because)
    return _change(name, says, now_ns, lambda case: cured(case).job_step_ns(case))


def _kept(ranks: Sequence[RankDigest], joint: Joint, waits: Sequence[RankWaits]) -> str:
    """The reason not to trust a cure: the replay keeps waiting as the ranks' own work; "" if it keeps hardly any.

    Of the waiting, that is what ends a little before a collective, for example because the trace's times are rounded.
    The unchanged replay is as near to the measured steps with it as without.
    """
    if not waits:
        return ""
    kept, ended = [], []
    for work, of_rank in zip(joint.work, waits, strict=True):
        waited = iv.intervals(of_rank.start, of_rank.end)
        kept.append(iv.total(iv.intersect(waited, work.goes_on)))
        ended.append(iv.total(iv.intersect(waited, work.stops)))
    usual = (sum(kept) + sum(ended)) / len(ranks)
    for rank, stays, goes in zip(ranks, kept, ended, strict=True):
        part = share(stays, max(stays + goes, usual)) or 0.0
        if part > stray_share(rank):
            says = f"{spoken(part, 'share')} of the waiting of rank {rank.rank} ends a little before its collective"
            return f"by the trace's times {says}, as with rounded times"
    return ""


def _as_before(ranks: Sequence[RankDigest], late: Sequence[int], joint: Joint, cure: Cure) -> str:
    """The reason why a cure of late ranks shows no gain: their work is as before; "" if all of it changes."""
    name, _, cured = cure
    work = cured("best").work if name == NO_STRAGGLER else ()
    alike = [ranks[p].rank for p in late if work and work[p] is joint.work[p]]
    return f"no rank that does the same as {named_ranks(alike)} is ready earlier" if alike else ""


def _cures(
    matched: Match, late: Sequence[int], slow: Sequence[SlowLink], joint: Joint, stages: StageWork | None
) -> Iterator[Cure]:
    """The job without what makes ranks late."""
    says = "; ".join([*([LATE] if late else []), *([MENDED] if slow else [])])
    if says:
        quick = mended(joint, matched, slow)
        yield NO_STRAGGLER, says, lambda case: without_late(quick, late, case, stages)


def _evened(ranks: Sequence[RankDigest], late: Sequence[int], joint: Joint, stages: StageWork | None) -> Iterator[Cure]:
    """The pipeline with stages, and with micro-batches, of equal work."""
    if stages is not None:
        even = with_even_batches(ranks, joint, stages.pipeline, late)
        yield EVEN_BATCHES, EVEN, lambda case: even
        if stages.heavier:
            yield EQUAL_STAGES, EQUAL, lambda case: with_equal_stages(joint, stages, case)


def _loaded(ranks: Sequence[RankDigest], late: Sequence[int], joint: Joint) -> Iterator[Cure]:
    """The job without waits for data, if they are no late rank's own."""
    if loads_late(ranks, late):
        loaded = without_data_waits(joint, ranks)
        yield NO_DATA_WAIT, LOADED, lambda case: loaded


def _candidates(ranks: Sequence[RankDigest], matched: Match, topology: Topology, joint: Joint) -> Iterator[Candidate]:
    """Each further change with what it assumes and the step that it makes."""
    if joint.steps > 1:  # a single step may begin with ranks apart, and overlap does not bring them together
        messages = messages_of(ranks, matched, joint)
        says = HIDDEN + (IN_STAGES if messages.any() else "")
        yield "perfect overlap", says, lambda case: hidden_ns(joint, case, messages)
    yield "twice the bandwidth", FASTER, lambda case: faster(joint, case).job_step_ns(case)
    buckets = buckets_of(ranks, joint)
    if buckets.any():
        yield "larger buckets", LARGER, lambda case: larger(joint, buckets, case).job_step_ns(case)
        yield "smaller buckets", SMALLER, lambda case: smaller(joint, buckets, case).job_step_ns(case)
    hybrid = hybrid_of(ranks, matched, joint, topology)
    if hybrid is not None:
        yield "HSDP", HYBRID, lambda case: hybrid.applied(joint, case).job_step_ns(case)


def _change(name: str, says: str, now_ns: float, step: StepNs) -> JobChange:
    """A change that only costs is one not to make, so no speedup is below 1."""
    low, high = sorted(max(now_ns / step(case), 1.0) for case in CASES)
    return JobChange(change=name, says=says, speedup=(low, high))


def _with_cost(change: JobChange, ranks: Sequence[RankDigest]) -> JobChange:
    """A straggler costs at least what its worst case supports."""
    told = change.change == NO_STRAGGLER and change.speedup is not None and change.speedup[0] >= LEAST_GAIN
    if change.speedup is None or not told or not ranks[0].has_gpu:
        return change
    size = max(len(ranks), ranks[0].world_size or 0)
    return replace(change, gpu_hours_per_day=gpu_hours_lost_per_day(size, change.speedup[0]))


def without_late(joint: Joint, late: Sequence[int], case: Case, stages: StageWork | None = None) -> Joint:
    """Each late rank has the work of one that does the same: of the slowest, or of the median one."""
    return joint.with_work({p: _peer(joint, p, late, case, stages) for p in late})


def mended(joint: Joint, matched: Match, slow: Sequence[SlowLink]) -> Joint:
    """The collectives over slow links take as long as those of the other groups."""
    transfer = joint.transfer.copy()
    for link in slow:
        position, rows = link.members[0], matched[link.group].call[link.instances, 0]
        over_link = np.isin(joint.work[position].row, rows)
        transfer[joint.collective[position][over_link]] *= link.typical
    return joint.with_transfer(transfer)


def _peer(joint: Joint, position: int, late: Sequence[int], case: Case, stages: StageWork | None) -> RankWork:
    """The work of another rank that does the same and is ready earlier, or the rank's own if there is none.

    In a pipeline those are the ranks of its stage, or other stages if it has no other rank. Elsewhere they make the
    same calls, or are all others if none does.
    """
    own_work = joint.work[position]
    if stages is not None and len(stages.pipeline.beside(position)) == 1:
        aim = joint.steps * (stages.longest_other if case == "worst" else stages.usual)
        return scaled(own_work, min(aim / max(own_work.own_ns, 1.0), 1.0))
    beside = range(len(joint.work)) if stages is None else stages.pipeline.beside(position)
    peers = [joint.work[p] for p in beside if p not in late]
    same = [work for work in peers if work.signature == own_work.signature]
    earlier = sorted((work for work in same or peers if _reach(work) < _reach(own_work)), key=_reach)
    if not earlier:
        return own_work
    chosen = earlier[-1 if case == "worst" else len(earlier) // 2]
    return chosen.in_order_of(own_work) if same else paced_as(own_work, chosen)


def _reach(work: RankWork) -> float:
    """The time at which the rank would end its steps without any waiting."""
    return work.start + work.own_ns


def messages_of(ranks: Sequence[RankDigest], matched: Match, joint: Joint) -> Mask:
    """Mask over the collectives: the messages of one rank to another, with which the stages of a pipeline go on."""
    messages, size = np.zeros(len(joint.transfer), bool), np.bincount(np.concatenate(joint.collective))
    for group in matched:
        first = int(group.members[0])
        of_group = np.isin(joint.work[first].row, group.call[:, 0])
        messages[joint.collective[first][of_group]] = is_point_to_point(ranks, group)
    for rank, work, of in zip(ranks, joint.work, joint.collective, strict=True):
        sent = described(rank, work)[0] == SEND_RECEIVE
        messages[of[sent & (size[of] == 1)]] = True
    return messages


def hidden_ns(joint: Joint, case: Case, messages: Mask | None = None) -> float:
    """The step when work never waits for collectives: that of the longest work, or of the busiest group.

    It still waits for messages: overlap does not end the waits of a pipeline's stages for each other.
    """
    steps, slower, free = [], [], {}
    waits_for = np.zeros(len(joint.transfer), bool) if messages is None else messages
    for p, (work, of) in enumerate(zip(joint.work, joint.collective, strict=True)):
        blocked = np.bincount(work.block_on, work.blocked, len(of))
        hidden = float(np.where(waits_for[of], 0, np.minimum(blocked, joint.transfer[of])).sum())
        busiest = max((float(joint.transfer[of[chain]].sum()) for chain in work.chains), default=0.0)
        slower.append(CONTENTION[case] * hidden)
        steps.append(max(work.own_ns + slower[-1], busiest))
        free[p] = work.waiting_only(waits_for[of])
    longest = max(steps) / joint.steps
    if not waits_for.any():
        return longest
    return max(longest, joint.with_work(free).job_step_ns(case) + max(slower) / joint.steps)


def faster(joint: Joint, case: Case) -> Joint:
    """Half the transfer, but for its latency."""
    latency = np.minimum(joint.transfer, LATENCY_NS[case])
    return joint.with_transfer(latency + (joint.transfer - latency) / 2)


# FSDP over nodes against HSDP in the joint replay: shards inside a node, one reduction of them between nodes.

REACHED: dict[Case, float] = {"worst": 0.6, "best": 1.0}  # of the bandwidth expected inside a node


class Hybrid(msgspec.Struct, frozen=True):
    """Collectives that cross nodes and would not: numbers of the joint replay, with kind and bytes of each."""

    collective: tuple[int, ...]
    kind: tuple[str, ...]
    bytes: tuple[int, ...]
    links: GroupLinks
    nodes: int

    def applied(self, joint: Joint, case: Case) -> Joint:
        """The job with its parameters sharded inside a node."""
        transfer = joint.transfer.copy()
        for number, kind, size in zip(self.collective, self.kind, self.bytes, strict=True):
            transfer[number] = self._ns(kind, size, joint.transfer[number], case)
        return joint.with_transfer(transfer)

    def _ns(self, kind: str, size: int, now_ns: float, case: Case) -> float:
        """Inside the node; a reduce-scatter is followed by an all-reduce of each GPU's shard between the nodes."""
        gpus, count = self.links.ranks, self.links.ranks * self.nodes
        rate = REACHED[case] * (self.links.bus_gbs(kind, size) or 0) * 1e9
        seconds = transfer_s(kind, size, gpus, rate)
        if kind == "reducescatter":
            network = nic_rate(bus_bytes_per_s(kind, size, now_ns / 1e9, count), self.nodes, count)
            seconds += transfer_s("allreduce", size / gpus, self.nodes, network, NETWORK_LATENCY_S)
        return seconds * 1e9


def hybrid_of(ranks: Sequence[RankDigest], matched: Match, joint: Joint, topology: Topology) -> Hybrid | None:
    """The effect of HSDP; None if nothing is sharded over equal nodes, or the links inside a node are not known."""
    on_node = Counter(topology.node)
    nodes, sizes = len(on_node), set(on_node.values())
    if nodes < 2 or len(sizes) != 1 or sizes == {1}:
        return None
    links = topology.inside(sizes.pop())
    if isinstance(links, Unknown) or links.bus_gbs("allgather", BUCKET_BYTES) is None:
        return None
    whole = [group for group in matched if len(group.members) == len(topology.node)]
    rows = [row for group in whole for row in _sharded(ranks, group, joint)]
    if not rows:
        return None
    collective, kind, size = zip(*rows, strict=True)
    return Hybrid(collective, kind, size, links, nodes)


def _sharded(ranks: Sequence[RankDigest], group: GroupMatch, joint: Joint) -> list[tuple[int, str, int]]:
    """The group's large all-gathers and reduce-scatters: number, kind and bytes."""
    first = int(group.members[0])
    kinds, sizes = described(ranks[first], joint.work[first])
    of_group = np.isin(joint.work[first].row, group.call[:, 0])
    large = np.flatnonzero(of_group & np.isin(kinds, ("allgather", "reducescatter")) & (sizes >= BUCKET_BYTES))
    of = joint.collective[first]
    return [(int(of[e]), str(kinds[e]), int(sizes[e])) for e in large.tolist() if joint.transfer[of[e]] > 0]
