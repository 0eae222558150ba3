"""Rules about several ranks and checkpoints, from a trace to the change, its patch and what it buys."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed_traces import DISTRIBUTED, Faulty, Trace, gathers, passes, reduced, together, train
from faulty_traces import MIB
from kineto import collective
from own_words import called, in_its_words

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis, Finding, Patch
from diagnose.metrics import units
from diagnose.probes.apply.allowed import why_not
from diagnose.probes.facts.model import wrapped_facts
from diagnose.rule import load_rules

SAMPLES = Path(__file__).parents[2] / "sample_traces"
HEALTHY = ["synthetic-healthy-8", "gloo-healthy", "synthetic-compute-bound.json.gz", "cpu-healthy.json.gz"]
RULES = {rule.id: rule for rule in load_rules((), units())}
each = pytest.mark.parametrize(("name", "case"), DISTRIBUTED.items(), ids=DISTRIBUTED)


def answer(
    jobs: list[Trace], folder: Path, record: Mapping[str, Any] | None = None, network_gbs: float | None = None
) -> Diagnosis:
    for job in jobs:
        job.write(folder / f"rank{job.rank}.json")
        if record:
            own = {**record, "host": f"node{job.rank}"} if network_gbs else record
            (folder / f"capture-rank{job.rank}.json").write_text(json.dumps(own))
    return analyze(folder, options=Options(network_gbs=network_gbs))


def finding(found: Diagnosis, rule: str) -> Finding | None:
    return next((f for f in found.findings if f.rule == rule), None)


@each
def test_the_fault_is_found_with_its_change(name: str, case: Faulty, tmp_path: Path) -> None:
    diagnosed = answer(case.files(True), tmp_path, case.record, case.network_gbs)
    found = finding(diagnosed, name)

    assert found is not None
    assert (found.severity, found.patch) == (case.severity, in_its_words(diagnosed, case.patch))


@each
def test_the_change_buys_something(name: str, case: Faulty, tmp_path: Path) -> None:
    diagnosed = answer(case.files(True), tmp_path, case.record, case.network_gbs)
    found = finding(diagnosed, name)

    assert diagnosed.replay.valid, diagnosed.replay.because
    assert found is not None
    assert found.predicted_speedup is not None
    low, high = found.predicted_speedup
    assert high is not None
    assert 1 <= low <= high
    assert high > 1.01


@each
def test_without_the_fault_the_rule_is_judged_and_silent(name: str, case: Faulty, tmp_path: Path) -> None:
    diagnosed = answer(case.files(False), tmp_path, case.record, case.network_gbs)

    assert finding(diagnosed, name) is None
    assert name not in {n.rule for n in diagnosed.not_judged}


@each
def test_the_patch_can_be_applied(name: str, case: Faulty) -> None:
    set_ = case.patch.set if case.patch else {}

    assert [why_not(case.patch.target, key, value) for key, value in set_.items() if case.patch] == [""] * len(set_)


@pytest.mark.long
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_job_hears_nothing(name: str) -> None:
    fired = {f.rule for f in analyze(SAMPLES / name).findings}

    assert fired & set(DISTRIBUTED) == set()


def test_every_rule_that_is_excluded_exists() -> None:
    assert [(r, e) for r in DISTRIBUTED for e in RULES[r].excludes if e not in RULES] == []


def not_advised(found: Diagnosis) -> str:
    return " ".join(n.because for n in found.not_advised)


def test_gradients_that_are_views_already(tmp_path: Path) -> None:
    record = {"ddp": {"gradient_as_bucket_view": True}}

    found = answer(DISTRIBUTED["copied-gradients"].files(True), tmp_path, record)

    assert finding(found, "copied-gradients") is None
    assert "already views of the buckets" in not_advised(found)


def test_a_static_graph_is_not_made_static_again(tmp_path: Path) -> None:
    record = {"ddp": {"find_unused_parameters": True, "static_graph": True}}

    found = answer(DISTRIBUTED["repeated-graph-search"].files(True), tmp_path, record)

    assert finding(found, "repeated-graph-search") is None
    assert finding(found, "unused-parameter-search") is None


@pytest.mark.parametrize("unused", [0, 4096])
def test_a_search_that_finds_something_stays(unused: int, tmp_path: Path) -> None:
    record = {"ddp": {"find_unused_parameters": True, "unused_parameter_bytes": unused}}

    found = answer(DISTRIBUTED["repeated-graph-search"].files(True), tmp_path, record)
    search, static = finding(found, "unused-parameter-search"), finding(found, "repeated-graph-search")

    assert static is not None
    assert static.patch == Patch(target="ddp", set={"static_graph": True})
    if unused:
        assert search is None
        assert "get no gradient: without the search DDP stops" in not_advised(found)
        assert found.next.rule == "repeated-graph-search"
    else:
        assert search is not None
        assert search.patch == Patch(target="ddp", set={"find_unused_parameters": False})
        assert found.next.rule == "unused-parameter-search"


def test_without_the_search_a_static_graph_is_not_advised(tmp_path: Path) -> None:
    found = answer(DISTRIBUTED["repeated-graph-search"].files(False), tmp_path)

    assert [n.because for n in found.not_advised if n.what == called(found, "ddp_static_graph")] == [
        "DDP does not search for unused parameters on these 2 ranks, so a static graph spares nothing"
    ]


def test_passes_that_the_run_does_not_accumulate(tmp_path: Path) -> None:
    record = {"training_arguments": {"gradient_accumulation_steps": 1}}

    found = answer(DISTRIBUTED["reduced-micro-steps"].files(True), tmp_path, record)

    assert finding(found, "reduced-micro-steps") is None
    assert "does not accumulate gradients" in not_advised(found)


def test_a_queue_of_buckets_is_no_late_last_bucket(tmp_path: Path) -> None:
    def queued(job: Trace) -> None:
        passes(job)
        for _ in range(4):
            reduced(job, 25 * MIB, 300)
        job.wait()

    found = answer(train(queued), tmp_path)

    assert finding(found, "exposed-gradient-tail") is None
    assert finding(found, "exposed-communication") is not None


def test_one_rank_does_not_tell_the_bandwidth(tmp_path: Path) -> None:
    found = answer(DISTRIBUTED["slow-links"].files(True)[:1], tmp_path)

    assert finding(found, "slow-links") is None
    assert {n.rule: n.because for n in found.not_judged}["slow-links"] == "one rank cannot tell transfer from waiting"


def test_how_fast_the_network_should_be_has_to_be_stated(tmp_path: Path) -> None:
    fault = DISTRIBUTED["slow-network"]
    jobs = fault.files(True)
    for job in jobs:
        (tmp_path / f"capture-rank{job.rank}.json").write_text(json.dumps({**fault.record, "host": f"node{job.rank}"}))

    found = answer(jobs, tmp_path)

    (why,) = [n for n in found.not_judged if n.rule == "slow-network"]
    assert "large messages move 33.6 GB/s" in why.because
    assert "pass --network-gbs" in why.capture_next


def over_two_nodes(captured: Sequence[int], us: Mapping[int, float], folder: Path) -> Diagnosis:
    """Ranks 0 and 1 on one node and 2 and 3 on another: 0 and 2 exchange 64 MiB, and so do 1 and 3, in `us`."""
    jobs = {rank: Trace(rank=rank, world=4) for rank in captured}
    for _ in range(5):
        with together(list(jobs.values())):
            for job in jobs.values():
                passes(job)
            for first, time_us in us.items():
                pair = [jobs[first], jobs[first + 2]]
                own = {"group": f"group {first}", "ranks": [first, first + 2]}
                collective(pair, "allreduce", 64 * MIB, time_us, wait=True, **own)
            for job in jobs.values():
                job.sync(stream=None)
    for rank, job in jobs.items():
        job.write(folder / f"rank{rank}.json")
        (folder / f"capture-rank{rank}.json").write_text(
            json.dumps({"host": f"node{rank // 2}", "slurm": {"SLURM_NNODES": "2"}})
        )
    return analyze(folder, options=Options(network_gbs=100))


@pytest.mark.parametrize(("us", "advice"), [(8000, "what they share"), (1700, "nccl-tests")])
def test_groups_are_compared_by_their_rates(us: float, advice: str, tmp_path: Path) -> None:
    found = finding(over_two_nodes(range(4), {0: 8000, 1: us}, tmp_path), "slow-network")

    assert found is not None
    assert advice in found.do


def test_what_ranks_without_a_trace_take_of_the_network_is_unknown(tmp_path: Path) -> None:
    found = over_two_nodes((0, 2), {0: 1700}, tmp_path)

    assert finding(found, "slow-network") is None
    (why,) = [n for n in found.not_judged if n.rule == "slow-network"]
    assert "ranks without a trace may use the same network" in why.because


def test_prefetching_that_is_on(tmp_path: Path) -> None:
    record = {"fsdp": {"class": "FullyShardedDataParallel", "forward_prefetch": True}}

    found = answer(train(gathers(20, later_us=400)), tmp_path, record)

    assert finding(found, "late-all-gathers") is None
    assert "already prefetches in the forward pass" in not_advised(found)


def test_a_checkpoint_of_an_unknown_interval_is_not_judged(tmp_path: Path) -> None:
    found = answer(DISTRIBUTED["checkpoint-cadence"].files(True), tmp_path)

    assert "checkpoint-cadence" in {n.rule for n in found.not_judged}


def test_the_general_rule_is_not_planned_beside_the_specific_one(tmp_path: Path) -> None:
    found = answer(DISTRIBUTED["reduced-micro-steps"].files(True), tmp_path)

    order = [f.rule for f in found.findings]
    planned = [p.rule for p in found.plan]
    assert order.index("reduced-micro-steps") < order.index("exposed-communication")
    assert "reduced-micro-steps" in planned
    assert "exposed-communication" not in planned


@pytest.mark.parametrize("prefetches", [True, False])
def test_the_capture_says_whether_fsdp_prefetches(prefetches: bool) -> None:
    class FullyShardedDataParallel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.forward_prefetch = prefetches  # as torch's own holds it

    recorded = wrapped_facts(FullyShardedDataParallel())["fsdp"]

    assert recorded == {
        "class": "FullyShardedDataParallel",
        "sharding_strategy": None,
        "forward_prefetch": prefetches,
    }
