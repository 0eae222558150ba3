"""Of two to four ranks with one or two steps: the late one is named or suspected, and no healthy rank is accused."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import numpy as np
import pytest
from analysed import GEMM
from digests import MS, digests, together
from kineto import Trace, collective
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.arrays import Floats
from diagnose.judge.next_change import recommended
from diagnose.ranks import RankDigest, match
from diagnose.ranks.stragglers.evidence import LatenessEvidence, evidence_of, possible_straggler, stragglers_among
from diagnose.ranks.stragglers.few_steps import Slowest
from diagnose.ranks.stragglers.lateness import excess_of, lateness_of
from diagnose.ranks.stragglers.waits import waited_for, waiting_caused, waits_of

COLLECTIVES, TRANSFER_NS = 12, 20_000
JOBS = 100


def drawn(work_ms: Floats) -> LatenessEvidence:
    """Ranks that work for so long before each collective, shape (ranks, steps, collectives), and leave it together."""
    ranks, steps, count = work_ms.shape
    work = np.rint(work_ms.reshape(ranks, -1) * MS).astype(np.int64)
    left = np.cumsum(work.max(axis=0) + TRANSFER_NS)
    begin = np.concatenate(([0], left[:-1]))
    arrive, step = (begin + work).T, np.repeat(np.arange(steps), count)
    own, ends = np.cumsum(work, axis=1), left.reshape(steps, count)[:, -1]
    windows = np.stack((np.concatenate(([0], ends[:-1])), ends), axis=1)
    spans = windows[:, 1] - windows[:, 0]
    found = []
    for rank in digests([together("0", range(ranks), arrive, TRANSFER_NS, step)], steps=steps):
        mine, worked = own[rank.rank], work[rank.rank].reshape(steps, count).sum(axis=1)
        reached, gone = (np.stack((mine, times - mine), axis=1) for times in (arrive[:, rank.rank], left))
        cause_ns, spent = np.stack((worked, spans - worked), axis=1), np.stack((reached, gone), axis=1)
        exposed = np.stack((arrive[:, rank.rank], left), axis=1)
        found.append(replace(rank, windows=windows, cause_ns=cause_ns, spent=spent, exposed=exposed))
    return _evidence(found)


def _evidence(ranks: Sequence[RankDigest]) -> LatenessEvidence:
    matched = match(ranks)
    assert isinstance(matched, tuple)
    excess = [excess_of(ranks, group) for group in matched]
    lateness = lateness_of(ranks, matched, excess)
    waits = waits_of(ranks, matched, waited_for(ranks, matched, excess, lateness))
    return evidence_of(ranks, matched, lateness, waiting_caused(waits, lateness))


def accused(evidence: LatenessEvidence) -> tuple[tuple[int, ...], int | None]:
    """The ranks that are named, and the one that is suspected."""
    named = stragglers_among(evidence)
    return named, possible_straggler(evidence, named)


def healthy(random: np.random.Generator, ranks: int, steps: int, each: float, whole: float) -> Floats:
    """Equal ranks, whose work before each collective and whose steps as a whole spread log-normally."""
    by_step = random.lognormal(0, whole, (ranks, steps, 1))
    return random.lognormal(0, each, (ranks, steps, COLLECTIVES)) * by_step


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize(("each", "whole"), [(0.1, 0.02), (0.3, 0.05), (0.1, 0.1)])
@pytest.mark.long
def test_of_twenty_healthy_jobs_at_most_one_accuses_a_rank(ranks: int, steps: int, each: float, whole: float) -> None:
    random = np.random.default_rng([ranks, steps, round(100 * each), round(100 * whole)])

    found = [accused(drawn(healthy(random, ranks, steps, each, whole))) for _ in range(JOBS)]

    assert sum(bool(named) for named, _ in found) <= JOBS / 20
    if whole < 0.1:
        assert sum(bool(suspected) for _, suspected in found) <= JOBS / 20


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_rank_that_takes_twice_as_long_before_every_collective_is_named(ranks: int, steps: int) -> None:
    work = healthy(np.random.default_rng(5), ranks, steps, 0.1, 0.02)
    work[1] *= 2

    assert accused(drawn(work)) == ((1,), None)


@pytest.mark.parametrize(("steps", "answer"), [(1, ((), 1)), (2, ((1,), None))])
def test_one_long_pause_in_each_step_is_suspected_in_one_and_named_in_two(
    steps: int, answer: tuple[tuple[int, ...], int | None]
) -> None:
    """In a single step nothing tells a pause of every step from one that came once."""
    work = healthy(np.random.default_rng(5), 2, steps, 0.1, 0.02)
    work[1, :, 3] += 12 + 6 * np.arange(steps)

    assert accused(drawn(work)) == answer


def test_a_rank_that_works_on_little_more_than_the_other_is_not_suspected() -> None:
    work = healthy(np.random.default_rng(5), 2, 1, 0.1, 0.0)
    work[1] *= 1.08

    assert accused(drawn(work)) == ((), None)


@pytest.mark.parametrize(
    ("at", "of", "members", "chance"), [(8, 8, 2, 2 / 2**8), (5, 5, 4, 4 / 4**5), (1, 2, 2, 1.0), (0, 0, 3, 1.0)]
)
def test_the_chance_is_that_of_any_of_the_equal_ranks(at: int, of: int, members: int, chance: float) -> None:
    assert Slowest(at, of).chance(members) == pytest.approx(chance)


def test_a_suspicion_has_its_numbers_and_leaves_the_rule_open(tmp_path: Path) -> None:
    """One step of two ranks; rank 1 does something for 2 ms before the first of five all-reduces."""
    ranks = [Trace(rank=r, world=2) for r in range(2)]
    with ExitStack() as opened:
        for trace in ranks:
            opened.enter_context(trace.step())
            trace.cpu_op("aten::index", 2000 if trace.rank else 10)
        for _ in range(5):
            for trace in ranks:
                trace.launch(GEMM, 500)
            collective(ranks, "allreduce", 1 << 22, 50, wait=True)
        for trace in ranks:
            trace.sync(stream=None)
    for trace in ranks:
        trace.write(tmp_path / f"rank{trace.rank}.json")

    found = analyze(tmp_path)

    assert found.stragglers == ()
    facts = {fact.name: fact.value for fact in found.facts}
    assert facts["passing_waiting_share"] == facts["waiting_share"]  # what is only suspected may pass
    assert found.postmortem is not None
    (suspected,) = found.postmortem.suspected
    assert (suspected.rank, suspected.persistence, suspected.of_collectives) == (1, "suspected", 5)
    assert suspected.waiting_share == pytest.approx(1, abs=0.05)
    (open_,) = (entry for entry in found.not_judged if entry.rule == "straggler")
    assert "rank 1 may be the one that the others wait for" in open_.because
    left = recommended(msgspec.structs.replace(found, findings=(), plan=()))
    assert left.kind == "capture", "where no change is left, more steps are"
    assert "rank 1 may be late" in left.says
