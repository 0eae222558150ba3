"""The reason why a rank is late: its time beyond the others, and whether its kernels are more, larger or slower."""

from collections import Counter
from collections.abc import Sequence
from statistics import median

import msgspec
import numpy as np
from msgspec.structs import replace

from diagnose.arrays import Ints
from diagnose.attribution.causes import CAUSES, CORE_WAIT, class_of, lateness_cause_of
from diagnose.diagnosis.postmortem import Excess, LatenessCause, Straggler
from diagnose.facts import duration
from diagnose.ranks.digest import OPERATOR, RankDigest
from diagnose.ranks.stragglers.alone import REMEDY, done_alone
from diagnose.ranks.stragglers.host_code import NONE, HostEvidence, host_evidence, more_code
from diagnose.ranks.stragglers.lateness import COMMUNICATION, Lateness
from diagnose.timeline.kernel_names import COMPUTE_FAMILIES

KERNELS = "kernels"
NO_WORK = (0.0, 0.0, 0.0, 0.0)
EXPLAINS_BY_WORK = 0.5  # part of the longer time that more or larger kernels have to account for
ALIKE, SLOWER = 0.35, 1.04
MORE_WORK = 1.1  # times the other ranks': less is no difference to speak of
MORE_TOKENS = 1.05  # of the other ranks': less is no routing to speak of
TELLING = 0.01  # of the kernel time: smaller families say nothing
Judged = tuple[LatenessCause, list[str], str]  # cause, the parts of the excess that are its, a sentence


class RankLateness(Straggler, frozen=True, kw_only=True):
    """How late one rank is, what that cost the others, and why: a straggler where it stands out.

    Attributes:
        stands_out: whether it is late by more than chance.
        lost_share: of the others' steps, what they lose by it: what they wait, or how far it is behind by its own
            doing where that is more, since waiting that hides behind other work delays the communication after it.
        steps: numbers of the steps in which it is late.
        own_ns: how far it is behind by its own doing, mean over those steps.
    """

    stands_out: bool
    lost_share: float = 0.0
    steps: tuple[int, ...] = ()
    own_ns: int = 0


class Ratio(msgspec.Struct, frozen=True):
    """A rank's kernels of one family over those of the typical rank: time, number, elements worked on, and FLOPs.

    `elements` and `flops` are None if shapes were not recorded; `ns` is the rank's own time per step.
    """

    family: str
    ns: float
    time: float
    count: float
    elements: float | None
    flops: float | None

    @property
    def size(self) -> float:
        """Factor by which the work is larger, by elements or FLOPs; 1 if shapes were not recorded."""
        return max(self.elements or 0.0, self.flops or 0.0) or 1.0

    @property
    def work(self) -> float:
        """Factor by which the work is more, by number or by size."""
        return max(self.count, self.size)


def with_reason(
    late_rank: RankLateness, rank: RankDigest, peers: Sequence[RankDigest], lateness: Lateness, ns: Ints,
    waited_ns: int, tokens: float | None = None,
) -> RankLateness:  # fmt: skip
    """The late rank with the cause of its lateness.

    Args:
        late_rank: how late the rank is, and in which steps; in all of them where it names none.
        rank: its digest.
        peers: the other ranks of the group that it is late in.
        lateness: how far each rank is behind, for its causes.
        ns: how far the rank is behind in each step in which it is late, shape (steps, causes).
        waited_ns: what each other rank waits for it in such a step.
        tokens: what all-to-alls brought its experts, over the other ranks'; None if it is not known.
    """
    mean = ns.mean(axis=0)
    more = {c: int(n) for c, n in zip(lateness.causes, mean.tolist(), strict=True) if n >= 1}
    excess = {c: n for c, n in sorted(more.items(), key=lambda e: -e[1]) if class_of(c) != COMMUNICATION}
    if not excess:
        return replace(late_rank, because="nothing that it did differs from what the other ranks did")
    ratio = ratios(rank, peers, late_rank.steps)
    cause, parts, because = _judged(excess, ratio, tokens)
    more_ns = sum(excess[c] for c in parts)
    behind_ns = sum(int(n) for c, n in zip(lateness.causes, mean.tolist(), strict=True) if class_of(c) != COMMUNICATION)
    host = _host(cause, rank, peers, min(more_ns, behind_ns), bool(_more_operators(ratio)))
    everywhere_ns = behind_ns * len(ns) / max(late_rank.of_steps, 1)
    if alone := done_alone(rank, peers, everywhere_ns, runs_more=bool(_more_operators(ratio))):
        remedy = f"; {REMEDY[alone.work]}" if late_rank.persistence == "transient" else ""
        cause, because, host = "checkpoint", f"{alone.says}{remedy}; {because}", NONE
    clock = clock_words(rank, peers) if cause == "slower_kernels" and rank.has_gpu else ""
    text = "; ".join(filter(None, (because, clock, host.says, f"most of it in {host.where}" if host.where else "")))
    return replace(
        late_rank,
        cause=cause,
        because=text,
        excess=tuple(Excess(cause=part, ns=ns_of_part) for part, ns_of_part in excess.items()),
        explained_share=min(more_ns / max(waited_ns, 1), 1.0),
        host_code=host.code,
        where=alone.where if alone else host.where,
        alone=alone.work if alone else "none",
    )


def _host(
    cause: LatenessCause, rank: RankDigest, peers: Sequence[RankDigest], more_ns: int, more_operators: bool
) -> HostEvidence:
    """How the rank's host differs if that makes it late; without a GPU, slower kernels are the host's own."""
    if cause == "host":
        return host_evidence(rank, peers, more_ns)
    if cause == "more_work" and more_operators:
        return more_code(rank, peers, more_ns)
    return HostEvidence("slower") if cause == "slower_kernels" and not rank.has_gpu else NONE


def _judged(excess: dict[str, int], ratio: Sequence[Ratio], tokens: float | None) -> Judged:
    """The cause, the parts of the excess that are its, and a sentence."""
    sums: Counter[str] = Counter()
    for part, ns in excess.items():
        sums[_kind_of(part)] += ns
    kind = max(sums, key=lambda k: sums[k])
    parts = [part for part in excess if _kind_of(part) == kind]
    if kind == KERNELS:
        return _kernels(parts, sums[kind], ratio, tokens)
    main = CAUSES[parts[0]]
    dispatching = sum(excess[part] for part in parts if CAUSES[part].per_launch)
    if main.per_launch and 2 * dispatching > sums[kind] and (more := _more_operators(ratio)):
        return "more_work", parts, more
    if main.name == CORE_WAIT and ratio and accounts_for_it(ratio):
        return "more_work", parts, f"{_more(ratio, weighted(ratio, 'time'))}; {_spoken(excess, parts)}"
    if main.lateness:
        parts = [main.name]
    return lateness_cause_of(main.name), parts, _spoken(excess, parts)


def _kind_of(cause: str) -> str:
    """The class of the cause, but one for all kernels: being memory-bound or not does not matter for a late rank."""
    return KERNELS if class_of(cause) in ("compute", "memory") else class_of(cause)


def _spoken(excess: dict[str, int], parts: Sequence[str]) -> str:
    told = [part for part in parts if excess[part] >= 0.15 * excess[parts[0]]][:3]
    listed = ", ".join(f"{duration(excess[part])} more of {CAUSES[part].spoken}" for part in told)
    return f"per step {listed} than the other ranks"


def ratios(rank: RankDigest, peers: Sequence[RankDigest], steps: Sequence[int] = ()) -> list[Ratio]:
    """A rank's kernel families over the median of other ranks, per step, those with most time first.

    It covers the steps with these numbers; all steps if none are given.
    """
    compared, theirs = [], [peer.work_per_step(steps) for peer in peers]
    for name, mine in rank.work_per_step(steps).items():
        usual = np.median([work.get(name, NO_WORK) for work in theirs], axis=0).tolist()
        if min(*usual[:2], *mine[:2]) > 0:
            time, count, *work = (m / u if u else None for m, u in zip(mine, usual, strict=True))
            compared.append(Ratio(name, mine[0], time or 0.0, count or 0.0, *work))
    total = sum(r.ns for r in compared)
    return sorted((r for r in compared if r.ns >= TELLING * total), key=lambda r: -r.ns)


def weighted(ratio: Sequence[Ratio], value: str) -> float:
    """Mean of a ratio over the families, weighted by the typical rank's time."""
    weights = [r.ns / r.time for r in ratio]
    return sum(getattr(r, value) * w for r, w in zip(ratio, weights, strict=True)) / max(sum(weights), 1e-9)


def _more_operators(ratio: Sequence[Ratio]) -> str:
    """A sentence when the rank runs notably more kernels than the others, "" else."""
    count = weighted(ratio, "count") if ratio else 1.0
    noun = "operators" if ratio and ratio[0].family == OPERATOR else "kernels"
    return f"it runs {count:.2f} times as many {noun} as the other ranks" if count >= MORE_WORK else ""


def _kernels(parts: list[str], ns: int, ratio: Sequence[Ratio], tokens: float | None) -> Judged:
    """More work when more or larger kernels account for half of the longer time, else slower kernels.

    If no shapes were recorded, more tokens for its experts also count as more work.
    """
    if not ratio:
        return "unknown", parts, f"its kernels take {duration(ns)} longer per step"
    time, work = weighted(ratio, "time"), weighted(ratio, "work")
    enough = 1 + EXPLAINS_BY_WORK * (time - 1)
    routed = tokens is not None and tokens >= max(enough, MORE_TOKENS)
    if (work >= enough and work > 1) or (routed and _without_shapes(ratio)):
        more = f"; its experts got {100 * (tokens - 1):.0f} % more tokens" if tokens is not None and routed else ""
        return "more_work", parts, _more(ratio, time) + more
    return "slower_kernels", parts, _slower(ratio, ns)


def accounts_for_it(ratio: Sequence[Ratio]) -> bool:
    """Whether more or larger kernels account for half of the longer time: what waits for a core then is that work."""
    work = weighted(ratio, "work")
    return work >= max(1 + EXPLAINS_BY_WORK * (weighted(ratio, "time") - 1), MORE_WORK)


def _without_shapes(ratio: Sequence[Ratio]) -> bool:
    return all(r.elements is None for r in ratio)


def _more(ratio: Sequence[Ratio], time: float) -> str:
    count, size = weighted(ratio, "count"), weighted(ratio, "size")
    noun = "operators" if ratio[0].family == OPERATOR else "kernels"
    text = f"{count:.2f} times as many {noun}" if count >= 1.02 else f"as many {noun}"
    sized = f" with {size:.2f} times the work" if size >= 1.02 and size > 1.02 * count else ""
    return f"it runs {text}{sized} as the other ranks, which take {time:.2f} times as long"


def _slower(ratio: Sequence[Ratio], ns: int) -> str:
    listed = ", ".join(f"{r.family} {r.time:.2f}" for r in ratio[:5])
    text = f"as many kernels of the same sizes take {duration(ns)} longer per step (times as long: {listed})"
    if _without_shapes(ratio):
        text = text.replace(" of the same sizes", "") + "; shapes were not recorded, so larger inputs are not ruled out"
    return f"{text}{_pattern(ratio)}"


def _pattern(ratio: Sequence[Ratio]) -> str:
    """A clause on which families are slower: only the memory-bound ones, or all alike; "" if neither."""
    compute = [r for r in ratio if r.family in COMPUTE_FAMILIES]
    memory = [r for r in ratio if r.family not in COMPUTE_FAMILIES and r.family != OPERATOR]
    if not compute or not memory:
        return ""
    by_compute, by_memory = weighted(compute, "time"), weighted(memory, "time")
    if by_compute < 1 + ALIKE * (by_memory - 1) and by_memory > SLOWER:
        return "; only the memory-bound ones: something else uses the memory's bandwidth"
    if by_memory > 1 + ALIKE * (by_compute - 1) and by_compute > SLOWER:
        return "; all families alike: clocks, power or heat"
    return ""


# Compare the clock of a late rank's GPU with the others': a reason why kernels of the same work take longer.

LOWER = 0.97  # of the others' clock: less apart is the usual spread of GPUs


def clock_words(rank: RankDigest, peers: Sequence[RankDigest]) -> str:
    """A clause on the clock of the rank's GPU and the others', and its limits; "" if it was not read."""
    if rank.clock is None:
        return ""
    others = [peer.clock.mhz for peer in peers if peer.clock is not None]
    mine = f"its clock is at {rank.clock.mhz:,.0f} MHz"
    beside = f", the others' at {median(others):,.0f} MHz" if others else ""
    held = f", held down by {' and '.join(rank.clock.held_by)}" if rank.clock.held_by else ""
    if others and rank.clock.mhz >= LOWER * median(others):
        return f"{mine}{beside}: not what makes it slower"
    return mine + beside + held
