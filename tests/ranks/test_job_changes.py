"""What a change buys the whole job: the joint replay of its ranks against jobs that ran without the fault."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from msgspec import structs
from read_once import diagnosis_of
from simulator import Fault, Job, Transport, simulate

from diagnose.analysis import analyze
from diagnose.analysis.rank import analyses
from diagnose.metrics.settings import Settings
from diagnose.ranks import RankDigest, match
from diagnose.ranks.network.topology import topology_of
from diagnose.ranks.replay.buckets import buckets_of, described, larger, smaller
from diagnose.ranks.replay.changes import Changes, changes_of, faster, hidden_ns, without_late
from diagnose.ranks.replay.joint import Joint, joint_of
from diagnose.trace import Loading

pytestmark = pytest.mark.long

REAL = os.environ.get("DIAGNOSE_REAL_TRACES", "")
LATE = 2
BUCKETS = 5  # of two layers, and the tied embedding's
NETWORK = Transport(network_bytes_per_s_per_rank=5e9)
SMALL = Job(ranks=4, steps=4, layers=2, model_parallel=2)
BEST_ERROR = 0.01  # of the healthy step: the ranks' own jitter of 1 % a kernel averages out over a step


@cache
def simulated(job: Job) -> tuple[tuple[RankDigest, ...], float]:
    """The ranks' digests, and the mean counted step of the healthy twin in nanoseconds."""
    ran = simulate(job)
    with TemporaryDirectory() as folder:
        ran.write(Path(folder), gz=False)
        files = [(Path(folder) / f"rank{rank}.json", rank) for rank in range(job.ranks)]
        digests = tuple(own.digest for own in analyses(files, Settings(), Loading()))
    return digests, float(ran.healthy.step_ns[1:].mean())


def joint(job: Job) -> tuple[Joint, float]:
    digests, healthy = simulated(job)
    found = match(digests)
    assert isinstance(found, tuple)
    replayed = joint_of(digests, found)
    assert isinstance(replayed, Joint)
    return replayed, healthy


def changes(digests: Sequence[RankDigest], late: Sequence[int] = ()) -> Changes:
    found = match(digests)
    assert isinstance(found, tuple)
    return changes_of(digests, found, late, topology_of(digests))


def speedup(found: Changes, name: str) -> tuple[float, float]:
    return next(change.speedup for change in found.changes if change.change == name)


@pytest.mark.parametrize("parallelism", ["ddp", "fsdp", "tp_dp"])
def test_the_unchanged_replay_is_the_measured_step_of_every_rank(parallelism: str) -> None:
    job = replace(SMALL, parallelism=parallelism, faults=(Fault("data", (LATE,)),))  # type: ignore[arg-type]

    replayed, _ = joint(job)

    assert replayed.strict_error < 0.005
    assert replayed.step_ns("best") == pytest.approx(replayed.step_ns(), rel=0.005), "queued ones are no guess"


@pytest.mark.parametrize(
    ("fault", "parallelism"),
    [("slow_kernels", "ddp"), ("data", "ddp"), ("more_kernels", "ddp"), ("checkpoint", "ddp"), ("data", "fsdp"),
     ("data", "tp_dp"), ("host", "tp_dp")],
)  # fmt: skip
def test_without_the_straggler_the_step_is_that_of_the_healthy_twin(fault: str, parallelism: str) -> None:
    """The best case within 1 %; the range holds the truth but for that."""
    job = replace(SMALL, parallelism=parallelism, faults=(Fault(fault, (LATE,)),))  # type: ignore[arg-type]

    replayed, healthy = joint(job)
    worst, best = (without_late(replayed, [LATE], case).job_step_ns(case) for case in ("worst", "best"))

    assert replayed.job_step_ns() > 1.1 * healthy
    assert best == pytest.approx(healthy, rel=BEST_ERROR)
    assert best * (1 - BEST_ERROR) <= healthy <= worst * (1 + BEST_ERROR)


def test_host_stalls_in_every_layer_hide_when_the_gradients_were_ready() -> None:
    """Only the late rank shows when queued buckets were ready, and it was late for each: too little is promised."""
    replayed, healthy = joint(replace(SMALL, faults=(Fault("sync", (LATE,)),)))

    best = without_late(replayed, [LATE], "best").job_step_ns("best")

    assert healthy * (1 - BEST_ERROR) <= best <= healthy * 1.05


def test_a_thread_that_goes_on_before_gloo_marks_the_end_has_waited_all_the_same(tmp_path: Path) -> None:
    """Gloo's own thread ends the last range of each step on rank 0 3 ms after the thread that waited has gone on."""
    ran = simulate(replace(SMALL, ranks=2, gpu=False, faults=(Fault("data", (1,), 40),)))
    ran.write(tmp_path, gz=False)
    text = json.loads((tmp_path / "rank0.json").read_text())
    collectives = sorted((e for e in text["traceEvents"] if e["name"].startswith("gloo:")), key=lambda e: e["ts"])
    for last in collectives[BUCKETS - 1 :: BUCKETS]:
        last["dur"] += 3_000
    (tmp_path / "rank0.json").write_text(json.dumps(text))
    digests = [own.digest for own in analyses([(tmp_path / f"rank{r}.json", r) for r in (0, 1)], Settings(), Loading())]

    low, high = speedup(changes(digests, [1]), "no straggler")

    measured = ran.machine.step_ns[1:].mean() / ran.healthy.step_ns[1:].mean()
    assert measured > 2
    assert low == pytest.approx(measured, rel=0.1)
    assert high == pytest.approx(measured, rel=0.1)


def test_a_slow_link_gains_what_the_twin_without_it_takes(tmp_path: Path) -> None:
    """Of two tensor-parallel pairs one reduces over a link that is four times slower."""
    slow = Fault("slow_link", (2, 3))
    truth = simulate(replace(SMALL, parallelism="tp_dp", ranks_per_node=2, faults=(slow,))).write(tmp_path)

    found = analyze(tmp_path)

    assert {(s.rank, s.cause) for s in found.stragglers} == {(2, "link"), (3, "link")}
    assert found.postmortem is not None
    change = next(c for c in found.postmortem.changes if c.change == "no straggler")
    slower = sum(truth.slowdown_ms) / sum(truth.step_ms)
    assert 1 - 1 / change.speedup[1] == pytest.approx(slower, rel=0.15)
    assert change.says == "slow links are as fast as those of the other groups"


def test_a_straggler_costs_gpu_hours() -> None:
    digests, healthy = simulated(replace(SMALL, faults=(Fault("data", (LATE,)),)))

    found = changes(digests, [LATE])
    change = next(c for c in found.changes if c.change == "no straggler")

    low, high = change.speedup
    measured = np.mean([rank.total_ns for rank in digests]) / digests[0].steps
    assert low <= measured / healthy * 1.01
    assert high == pytest.approx(measured / healthy, rel=0.02)
    assert change.gpu_hours_per_day == pytest.approx(4 * 24 * (1 - 1 / low))


def test_a_healthy_job_has_no_straggler_to_remove() -> None:
    digests, _ = simulated(SMALL)

    assert "no straggler" not in {c.change for c in changes(digests).changes}


def test_twice_the_bandwidth_is_what_the_twin_with_faster_links_takes() -> None:
    """The worst case keeps 40 us of each transfer, where the twin keeps 15."""
    slow = Transport(node_bytes_per_s=90e9)
    fast = replace(slow, node_bytes_per_s=180e9)

    replayed, _ = joint(replace(SMALL, transport=slow))
    twin, _ = joint(replace(SMALL, transport=fast))
    worst, best = (faster(replayed, case).job_step_ns(case) for case in ("worst", "best"))

    assert replayed.job_step_ns() > 1.1 * twin.job_step_ns()
    assert worst == pytest.approx(twin.job_step_ns(), rel=0.05)
    assert best == pytest.approx(twin.job_step_ns(), rel=0.05)


def test_perfect_overlap_leaves_the_work_or_the_transfers_whichever_is_longer() -> None:
    hidden, _ = joint(SMALL)
    swamped, _ = joint(replace(SMALL, transport=Transport(node_bytes_per_s=30e9)))

    assert hidden_ns(hidden, "best") == max(work.own_ns for work in hidden.work) / hidden.steps
    assert hidden_ns(hidden, "worst") > hidden_ns(hidden, "best")
    assert hidden_ns(swamped, "best") == pytest.approx(swamped.transfer.sum() / swamped.steps)


def test_larger_buckets_carry_the_same_bytes_in_fewer_messages() -> None:
    replayed, _ = joint(SMALL)
    buckets = buckets_of(simulated(SMALL)[0], replayed)

    fewer = larger(replayed, buckets, "best")

    saved = replayed.transfer.sum() - fewer.transfer.sum()
    assert buckets.all(), "four buckets and the tied embedding's gradient in each of three steps"
    assert (fewer.transfer == 0).sum() == 2 * replayed.steps
    assert saved == pytest.approx(2 * replayed.steps * 40_000)


def test_smaller_buckets_shorten_the_tail_and_larger_ones_lengthen_it() -> None:
    """Half of the last message, some 1.3 ms of transfer here, travels earlier."""
    slow = replace(SMALL, transport=Transport(node_bytes_per_s=150e9))
    replayed, _ = joint(slow)
    buckets = buckets_of(simulated(slow)[0], replayed)

    halves, doubles = smaller(replayed, buckets, "best"), larger(replayed, buckets, "worst")

    assert halves.job_step_ns() < replayed.job_step_ns() < doubles.job_step_ns()


def test_reductions_that_the_work_waits_for_are_no_buckets() -> None:
    job = replace(SMALL, parallelism="tp_dp", faults=(Fault("data", (LATE,)),))

    digests, replayed = simulated(job)[0], joint(job)[0]
    kinds, sizes = described(digests[0], replayed.work[0])
    waited_for = sizes == 4096 * 2048 * 2  # of the activations

    assert not buckets_of(digests, replayed)[replayed.collective[0][waited_for]].any()
    assert set(kinds.tolist()) == {"allreduce"}


def test_sharding_inside_the_nodes_is_predicted_for_fsdp_over_a_slow_network_alone() -> None:
    def found(**more: object) -> Changes:
        job = replace(SMALL, parallelism="fsdp", ranks_per_node=2, **more)  # type: ignore[arg-type]
        digests, _ = simulated(job)
        return changes([structs.replace(rank, host=f"node{rank.rank // 2}") for rank in digests])

    assert speedup(found(transport=NETWORK), "HSDP")[1] > 1.1
    assert "HSDP" not in {c.change for c in found(transport=Transport(network_bytes_per_s_per_rank=1e12)).changes}


def test_a_replay_that_misses_the_measured_steps_predicts_nothing() -> None:
    digests, _ = simulated(SMALL)
    odd = list(digests)
    odd[3] = structs.replace(odd[3], windows=odd[3].windows + np.array([[0, 0], [0, -3_000_000], [0, 0]]))

    found = changes(odd)

    assert not found.changes
    assert found.error is not None
    assert found.error > 0.05
    assert re.search(r"is \d+\.\d % away from the measured step", found.because)


@pytest.mark.skipif(not REAL, reason="DIAGNOSE_REAL_TRACES names no folder with real traces")
def test_a_real_job_of_one_step_begins_with_its_ranks_apart() -> None:
    """Rank 7 of eight begins last, two others almost as late: without it alone little is gained."""
    found = diagnosis_of(Path(REAL) / "dlrm-8xv100").postmortem

    assert found is not None
    assert found.changes_error is not None
    assert found.changes_error < 0.01
    low, high = next(c.speedup for c in found.changes if c.change == "no straggler")
    assert 1.0 <= low <= high < 1.2
