"""A job's ranks joined: waiting is taken out of exposed communication and given to what made a rank late."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.attribution import Attribution
from diagnose.attribution.causes import EXPOSED, waiting_for
from diagnose.diagnosis.postmortem import NO_DATA_WAIT, NO_STRAGGLER, AloneWork, HostCode
from diagnose.facts import Unknown, another_run
from diagnose.formulas import share
from diagnose.ranks.collectives.matching import ALONE, Match, match
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.distorted import distortion_of, undistorted
from diagnose.ranks.network.bandwidth import Reached, bus_rate, reached
from diagnose.ranks.network.slow_links import SlowLink, cost_of, costly, extra_of, passed_to_slow_ranks, slow_links
from diagnose.ranks.network.topology import Topology, topology_of
from diagnose.ranks.pipeline import stage_work_of
from diagnose.ranks.pipeline_view import PipelineView, pipeline_view
from diagnose.ranks.replay.changes import Changes, changes_of
from diagnose.ranks.replay.data_waits import data_wait_ns, loads_late, waits_for_data
from diagnose.ranks.stages import Pipeline, comparable, pipeline_of
from diagnose.ranks.stragglers.causes import RankLateness
from diagnose.ranks.stragglers.evidence import evidence_of, lead_share
from diagnose.ranks.stragglers.lateness import excess_of, lateness_of
from diagnose.ranks.stragglers.settings import settings_unlike
from diagnose.ranks.stragglers.stragglers import Joined, rank_lateness_of
from diagnose.ranks.stragglers.waits import RankWaits, waited_for, waiting_caused, waiting_share, waits_of
from diagnose.ranks.uneven import uneven_work_share
from diagnose.ranks.unlike import unlike
from diagnose.trace.distortion import distorted_by


class JobView(msgspec.Struct, frozen=True):
    """The data on the other ranks that a rank's metrics use.

    `suspected_from_steps` is the number of judged steps if the steps are too few to know that the late ranks always
    are, else 0. `straggler_cure_share` is the least and the most of the step that is saved if the late ranks are
    like the others, `cure_untold` why the waiting bounds it because it is not replayed, else "". `cured_by_data` is
    whether a rank is late by data for which others wait, too; `shared_data_wait_share` is the share of the step, apart
    from a rank's own wait for data, that is saved if no rank waits for data.
    `data_waits_shared` is whether those waits are no late rank's own. `late_rank_missing` is
    the reason why a rank without a trace may be the late one, `too_few_steps` the reason why the steps are too few
    to name one; else None. `most_waited_for` is the rank that causes most of the waiting in collectives, and its
    share. `distortion` is the profiled over the unprofiled step time, if so large that shares are not the job's
    own; else None. `cpu_ns_of_hosts` is the CPU time per second of each rank for which it is recorded, by host.
    `topology` has the nodes and their network. `uneven_work_share` is the share of a step that ranks wait as far as
    their work differs by its sizes; None if these are not recorded. `unlike` is what differs between the ranks
    though ranks of one job have it in common, in words by name. `same_rows` is whether the loader of each rank draws
    from all rows of the same dataset.
    """

    ranks: int = 1
    matched: bool = False
    why_unmatched: Unknown = ALONE
    straggler_share: float = 0.0
    straggler_cause: str = "none"
    straggler_host_code: HostCode = "none"
    straggler_where: str = ""
    straggler_alone: AloneWork = "none"
    straggler_settings: str = ""
    pipeline: PipelineView | None = None
    suspected_from_steps: int = 0
    straggler_cure_share: tuple[float, float] = (0.0, 0.0)
    cure_untold: str = ""
    bus_bytes_per_s: float | Unknown = ALONE
    bus_reached: Reached | Unknown = ALONE
    late_rank_missing: Unknown | None = None
    cured_by_data: bool = False
    shared_data_wait_share: float | Unknown = 0.0
    data_waits_shared: bool = False
    too_few_steps: Unknown | None = None
    most_waited_for: tuple[int, float] | None = None
    distortion: float | None = None
    uneven_work_share: float | None = None
    cpu_ns_of_hosts: Mapping[str, tuple[float, ...]] = msgspec.field(default_factory=dict)
    topology: Topology = Topology((), ())
    unlike: Mapping[str, str] = msgspec.field(default_factory=dict)
    same_rows: bool = False

    @property
    def undivided(self) -> Unknown | None:
        """The reason why waiting cannot be split from exposed communication, None if it can."""
        return self.late_rank_missing if self.matched else self.why_unmatched


class Job(msgspec.Struct, frozen=True):
    """The ranks, what was matched of their collectives, each one's waiting, and how late each is, worst first.

    `slow_links` are those that change who is waited for, without making a rank stand out.
    """

    view: JobView
    ranks: tuple[RankDigest, ...]
    match: Match = ()
    waits: tuple[RankWaits, ...] = ()
    lateness: tuple[RankLateness, ...] = ()
    changes: Changes = msgspec.field(default_factory=Changes)
    slow_links: tuple[SlowLink, ...] = ()

    @property
    def stragglers(self) -> tuple[RankLateness, ...]:
        """The ranks that stand out."""
        return tuple(rank for rank in self.lateness if rank.stands_out)

    def breakdown(self, position: int) -> dict[str, int]:
        """Nanoseconds of the rank at a position by cause, with waiting split from exposed communication.

        If the profiler distorts the steps, it is the breakdown of the steps without it.
        """
        if self.view.distortion is not None:
            return undistorted(self.ranks[position], self.view.distortion)
        ns_by_cause = self.ranks[position].ns()
        for number, class_ in enumerate(self.waits[position].classes if self.waits else ()):
            waits = self.waits[position]
            waited_ns = int(waits.exposed_ns[waits.class_ == number].sum())
            ns_by_cause[waiting_for(class_)] = waited_ns
            ns_by_cause[EXPOSED] -= waited_ns
        return ns_by_cause

    def breakdown_by_step(self, position: int) -> dict[str, Ints]:
        """The same by counted step, shape (steps,) each; what waits divide adds up to `ledger` within the steps."""
        rank = self.ranks[position]
        by_step = dict(zip(rank.causes, rank.cause_ns.T, strict=True))
        for class_ in self.waits[position].classes if self.waits else ():
            waited = iv.intersect(self.waits[position].pieces(class_), rank.exposed)
            by_step[waiting_for(class_)] = iv.coverage(waited, rank.windows[:, 0], rank.windows[:, 1])
            by_step[EXPOSED] = by_step[EXPOSED] - by_step[waiting_for(class_)]
        return by_step

    def together(self, positions: Iterable[int]) -> Counter[str]:
        """Nanoseconds of the ranks at the positions by cause, added up."""
        sums: Counter[str] = Counter()
        for position in positions:
            sums.update(self.breakdown(position))
        return sums

    def divided(self, position: int, attribution: Attribution) -> Attribution:
        """The attribution of the rank at a position, divided as its breakdown is."""
        if not self.waits or EXPOSED not in attribution.causes:
            return attribution
        left, parts, waits = attribution.pieces(EXPOSED), [], self.waits[position]
        for class_ in waits.classes:
            pieces = iv.intersect(left, waits.pieces(class_))
            left = iv.subtract(left, pieces)
            parts.append((waiting_for(class_), pieces))
        return _with_parts(attribution, left, parts)


def join(ranks: Sequence[RankDigest], network_gbs: float | None = None) -> Job:
    """Matches the collectives of all ranks and divides their exposed time into transfer and waiting.

    Args:
        ranks: each as a digest.
        network_gbs: stated rate of a node's network, one direction, GB/s.
    """
    topology = topology_of(ranks, network_gbs)
    job = _joined(ranks, topology)
    view = replace(job.view, cpu_ns_of_hosts=_cpu_ns_of_hosts(ranks), topology=topology, unlike=unlike(ranks))
    return replace(job, view=replace(view, same_rows=_have_same_rows(ranks)))


def _have_same_rows(ranks: Sequence[RankDigest]) -> bool:
    return len(ranks) > 1 and ranks[0].all_rows > 0 and len({rank.all_rows for rank in ranks}) == 1


def _cpu_ns_of_hosts(ranks: Sequence[RankDigest]) -> dict[str, tuple[float, ...]]:
    of_hosts: dict[str, tuple[float, ...]] = {}
    for rank in ranks:
        if rank.cpu_ns_per_s is not None:
            of_hosts[rank.host] = (*of_hosts.get(rank.host, ()), rank.cpu_ns_per_s)
    return of_hosts


def _joined(ranks: Sequence[RankDigest], topology: Topology) -> Job:
    matched, distortion = match(ranks), distortion_of(ranks)
    if isinstance(matched, Unknown):
        view = JobView(
            len(ranks), why_unmatched=matched, bus_bytes_per_s=matched, bus_reached=matched, distortion=distortion
        )
        return Job(view, tuple(ranks))
    if distortion is not None:
        return _distorted(ranks, matched, distortion)
    excess = [excess_of(ranks, group) for group in matched]
    pipeline = pipeline_of(ranks, matched)
    lateness = lateness_of(ranks, matched, excess, comparable(ranks, matched, pipeline))
    across = lateness if pipeline is None else lateness_of(ranks, matched, excess)
    links = slow_links(ranks, matched, topology.node)
    waits = waits_of(ranks, matched, waited_for(ranks, matched, excess, across, cost_of(links)))
    caused_ns = passed_to_slow_ranks(waiting_caused(waits, lateness), lateness.own_ns, links)
    rivals = None
    if pipeline is not None:
        caused_ns, rivals = pipeline.beyond_its_stage(caused_ns), pipeline.beside_each(len(ranks))
    evidence = evidence_of(ranks, matched, lateness, caused_ns, extra_of(links), rivals)
    by_rank = [
        _unless_its_stage(told, ranks, pipeline)
        for told in rank_lateness_of(Joined(ranks, matched, lateness, evidence, links))
    ]
    late = {p for p, rank in enumerate(ranks) if rank.rank in {told.rank for told in by_rank if told.stands_out}}
    stages = None if pipeline is None else stage_work_of(ranks, pipeline, late)
    stragglers = {straggler.rank: straggler.cause for straggler in by_rank if straggler.stands_out}
    by_link = {p for p in late if stragglers[ranks[p].rank] == "link"}
    guilty = [link for link in links if by_link.intersection(link.members)]
    changes = changes_of(ranks, matched, sorted(late - by_link), topology, guilty, stages, waits)
    alone = next((told for told in by_rank[: 1 if late else None] if told.alone != "none"), None)
    suspected_from = by_rank[0].of_steps if late and by_rank[0].persistence == "suspected" else 0
    waited = waiting_share(ranks, waits, late)
    lost = max(waited, by_rank[0].lost_share) if late else 0.0
    ahead = 0.0 if stages else min(lead_share(evidence, sorted(late)), waited)
    view = JobView(
        ranks=len(ranks),
        matched=True,
        straggler_share=by_rank[0].share if len(late) == 1 else waited,
        straggler_cause=by_rank[0].cause if late else "none",
        straggler_host_code=by_rank[0].host_code if late else "none",
        straggler_where=by_rank[0].where if late else alone.where if alone else "",
        straggler_alone=alone.alone if alone else "none",
        straggler_settings=settings_unlike(by_rank[0].rank, ranks) if late else "",
        suspected_from_steps=suspected_from,
        straggler_cure_share=_cure_share(changes, (ahead, lost), _stays(ranks, by_rank, late)),
        cure_untold=changes.untold(NO_STRAGGLER) if late else "",
        pipeline=None if stages is None else pipeline_view(ranks, stages, changes),
        bus_bytes_per_s=bus_rate(ranks, matched),
        bus_reached=reached(ranks, matched, topology),
        cured_by_data=_cured_by_data(ranks, by_rank, late),
        data_waits_shared=loads_late(ranks, late),
        shared_data_wait_share=_shared_data_wait_share(ranks, changes, late),
        too_few_steps=_possible_straggler(by_rank),
        most_waited_for=_most_waited_for(by_rank),
        uneven_work_share=uneven_work_share(ranks),
    )
    priced = changes.unpriced() if suspected_from else changes
    unnamed = [link for link in links if not by_link.intersection(link.members)]
    return Job(view, tuple(ranks), matched, waits, tuple(by_rank), priced, costly(ranks, unnamed))


def _distorted(ranks: Sequence[RankDigest], matched: Match, distortion: float) -> Job:
    """The job without waits: if the profiler delays ranks, others wait for them, so the job's own waits are unknown."""
    why = distorted_by(distortion)
    view = JobView(
        len(ranks), matched=True, bus_bytes_per_s=why, bus_reached=why, too_few_steps=why, distortion=distortion
    )
    return Job(view, tuple(ranks), matched, changes=Changes(because=why.because))


def _unless_its_stage(late: RankLateness, ranks: Sequence[RankDigest], pipeline: Pipeline | None) -> RankLateness:
    """The late rank, unless it is a whole stage of a pipeline with more work than the others: that is no rank's own."""
    position = next(p for p, rank in enumerate(ranks) if rank.rank == late.rank)
    if pipeline is None or len(pipeline.beside(position)) > 1 or late.cause != "more_work":
        return late
    return replace(late, stands_out=False, persistence="persistent")


def _stays(ranks: Sequence[RankDigest], by_rank: Sequence[RankLateness], late: Collection[int]) -> float:
    """The part of a late rank's excess that every rank has after the cure: its share of the work."""
    is_shared = late and (by_rank[0].cause == "more_work" or by_rank[0].alone == "evaluating")
    return 1 / len(ranks) if is_shared else 0.0


def _cure_share(changes: Changes, measured: tuple[float, float], stays: float) -> tuple[float, float]:
    """Share of the step that is saved without stragglers, least and most: by the joint replay, else as measured.

    The least leaves out the part that `stays` as every rank's work.

    It is less than the others wait for them if other ranks are nearly as late. As measured, it is between the lag of
    the late ranks behind the others, as far as it shows as waiting, and everything that the others lose; the stages of
    a pipeline wait anyway.
    """
    least, most = changes.saved(NO_STRAGGLER) or measured
    return least * (1 - stays), most


def _cured_by_data(ranks: Sequence[RankDigest], by_rank: Sequence[RankLateness], late: Collection[int]) -> bool:
    """Whether the worst rank is late for data and most of the ranks that are not late wait for data themselves."""
    others = [waits_for_data(rank) for p, rank in enumerate(ranks) if p not in late]
    return bool(late) and by_rank[0].cause == "data" and 2 * sum(others) > len(others)


def _shared_data_wait_share(ranks: Sequence[RankDigest], changes: Changes, late: Collection[int]) -> float | Unknown:
    """Share of the step saved if no rank waits for data, beyond the waits for data of the first rank that is not late.

    That is its waits for ranks that wait for data, by the joint replay; 0 if there is none.
    """
    typical = next((rank for p, rank in enumerate(ranks) if p not in late), None)
    if typical is None or not loads_late(ranks, late):
        return 0.0
    saved = changes.saved(NO_DATA_WAIT)
    if saved is None:
        return Unknown(changes.untold(NO_DATA_WAIT), another_run("capture more steps of every rank"))
    alone = 1 - data_wait_ns(typical) / max(typical.total_ns, 1)
    return max(1 - (1 - saved[0]) / alone, 0.0) if alone > 0 else 0.0


def _possible_straggler(lateness: Sequence[RankLateness]) -> Unknown | None:
    """The reason why it is open whether a rank is late, if one is suspected; else None."""
    possible = next((late for late in lateness if late.persistence == "suspected" and not late.stands_out), None)
    if possible is None:
        return None
    seen = f"{possible.of_steps} step{'' if possible.of_steps == 1 else 's'}: {possible.untold} to tell"
    because = f"rank {possible.rank} may be the one that the others wait for, by {seen}"
    more = f"capture {possible.steps_to_tell} steps of every rank (diagnose run --steps {possible.steps_to_tell})"
    return Unknown(because, another_run(more))


def _most_waited_for(lateness: Sequence[RankLateness]) -> tuple[int, float] | None:
    """The rank that causes most of the waiting, and its share; None if nobody waits."""
    most = max(lateness, key=lambda late: late.waiting_ns_caused)
    part = share(most.waiting_ns_caused, sum(late.waiting_ns_caused for late in lateness))
    return None if part is None else (most.rank, part)


def _with_parts(attribution: Attribution, exposed: iv.Intervals, parts: list[tuple[str, iv.Intervals]]) -> Attribution:
    number = attribution.causes.index(EXPOSED)
    keep = attribution.cause != number
    causes = attribution.causes + tuple(name for name, _ in parts)
    start = [attribution.start[keep], exposed[:, 0], *(p[:, 0] for _, p in parts)]
    end = [attribution.end[keep], exposed[:, 1], *(p[:, 1] for _, p in parts)]
    cause = [attribution.cause[keep], np.full(len(exposed), number, np.int32)]
    cause += [np.full(len(p), len(attribution.causes) + i, np.int32) for i, (_, p) in enumerate(parts)]
    order = np.argsort(np.concatenate(start), kind="stable")
    return replace(
        attribution,
        start=np.concatenate(start)[order],
        end=np.concatenate(end)[order],
        cause=np.concatenate(cause)[order].astype(np.int32),
        causes=causes,
    )
