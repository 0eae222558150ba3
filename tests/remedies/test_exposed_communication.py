"""What is said of exposed communication: by which ranks, by which parallelism, and who is late in turn."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from distributed_traces import Trace, gathers, product, reduced, together, train
from faulty_traces import MIB
from kineto import collective
from matched_jobs import FIELDS, Json, changed
from simulator import Job, simulate

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, FactReport, Finding

Pause = Callable[[Trace, int], None]


def answer(jobs: list[Trace], folder: Path) -> Diagnosis:
    for job in jobs:
        job.write(folder / f"rank{job.rank}.json")
    return analyze(folder)


def finding(found: Diagnosis, rule: str) -> Finding:
    return next(f for f in found.findings if f.rule == rule)


def fact(found: Diagnosis, name: str) -> FactReport:
    return next(f for f in found.facts if f.name == name)


def reducing(count: int, pause: Pause, steps: int = 8, **more: object) -> list[Trace]:
    """Ranks of equal kernels that pause, and then reduce gradients for 300 us."""
    jobs = [Trace(rank=rank, world=count) for rank in range(count)]
    for step in range(steps):
        with together(jobs):
            for job in jobs:
                pause(job, step)
                product(job)
                with job.backward():
                    product(job)
            collective(jobs, "allreduce", 64 * MIB, 300, wait=True)
            for job in jobs:
                job.sync()
    return jobs


def last_is_late(job: Trace, step: int) -> None:
    if job.rank == 3:
        job.cpu_op("aten::tokenize", 3000)


def test_a_missing_rank_leaves_transfer_and_waiting_unknown(tmp_path: Path) -> None:
    """Three of four ranks wait 3 ms for the one without a trace; the transfer takes 0.3 ms."""
    found = answer(reducing(4, last_is_late)[:3], tmp_path)

    for name in ("transfer_share", "waiting_share", "passing_waiting_share", "straggler_share", "bus_bytes_per_s"):
        assert fact(found, name).value is None
        assert "whose trace is missing (3)" in fact(found, name).because
        assert fact(found, name).capture_next == "pass the traces of all ranks"
    general = finding(found, "exposed-communication")
    assert general.do.startswith("Capture all ranks first")
    assert general.predicted_speedup is not None
    assert general.predicted_speedup[0] == 1
    assert found.postmortem is not None
    assert found.postmortem.changes == ()
    assert [row.exposed_waiting_share for row in found.postmortem.traffic] == [None]
    assert {"transfer_or_wait", "straggler", "rotating-stragglers"} <= {n.rule for n in found.not_judged}
    assert found.verdict.because.endswith("is exposed communication")
    assert [doubt.kind for doubt in found.verdict.doubts] == ["one-rank"]


def test_with_all_ranks_the_late_one_is_named(tmp_path: Path) -> None:
    found = answer(reducing(4, last_is_late), tmp_path)

    assert [straggler.rank for straggler in found.stragglers] == [3]
    assert fact(found, "transfer_share").value == pytest.approx(0.05, abs=0.03)


def test_groups_whose_ranks_are_all_there_wait_for_no_missing_one(tmp_path: Path) -> None:
    """Of eight ranks four were captured, which reduce among themselves alone."""
    jobs = [Trace(rank=rank, world=8) for rank in range(4)]
    for _ in range(5):
        with together(jobs):
            for job in jobs:
                product(job)
            for pair in (jobs[:2], jobs[2:]):
                members = [job.rank for job in pair]
                collective(pair, "allreduce", 64 * MIB, 800, wait=True, group=str(members), ranks=members)
            for job in jobs:
                job.sync()

    found = answer(jobs, tmp_path)

    assert found.trace.missing_ranks == (4, 5, 6, 7)
    assert float(fact(found, "transfer_share").value or 0) > 0.2


def same_rank(job: Trace, step: int) -> None:
    if job.rank == 0 and step % 4 == 1:
        job.cpu_op("user::log", 8000)


def another_rank(job: Trace, step: int) -> None:
    if job.rank == step % 4:
        job.cpu_op("user::log", 3000)


def test_a_rank_that_is_late_now_and_then_is_named_with_its_reason(tmp_path: Path) -> None:
    turns = finding(answer(reducing(4, same_rank), tmp_path), "rotating-stragglers")

    assert "rank 0 causes 100.0 % of the waiting, most of it by host code" in turns.says
    assert turns.action == "share the work one rank does occasionally"


def same_rank_loads(job: Trace, step: int) -> None:
    job.loader(ms=8 if job.rank == 0 and step % 4 == 1 else 0.02)


def another_rank_loads(job: Trace, step: int) -> None:
    job.loader(ms=1.2 if job.rank == step % 8 else 0.02)


def test_a_rank_whose_data_is_late_now_and_then_is_named_with_its_reason(tmp_path: Path) -> None:
    """No other rank waits for data itself, so that data-wait has nothing to cure."""
    turns = finding(answer(reducing(4, same_rank_loads), tmp_path), "rotating-stragglers")

    assert "rank 0 causes 100.0 % of the waiting, most of it by data" in turns.says
    assert turns.action == "find what delays one rank's data at times"


def test_data_that_is_late_in_turn_is_bridged_by_loading_ahead(tmp_path: Path) -> None:
    """Each of eight ranks waits for its own data 3 % of its steps, and longer for that of the others."""
    turns = finding(answer(reducing(8, another_rank_loads, steps=9), tmp_path), "rotating-stragglers")

    assert turns.action == "bridge the pauses of the ranks' loaders"


def last_gets_slower(job: Trace, step: int) -> None:
    if job.rank == 3 and step >= 5:
        product(job, 1500)


def test_a_rank_that_is_late_from_one_step_on_is_no_matter_of_packing_alone(tmp_path: Path) -> None:
    turns = finding(answer(reducing(4, last_gets_slower), tmp_path), "rotating-stragglers")

    assert turns.action == "find what delays one rank at times"


def test_hosts_that_are_late_in_turn_are_no_unequal_batches(tmp_path: Path) -> None:
    turns = finding(answer(reducing(4, another_rank), tmp_path), "rotating-stragglers")

    assert "they come late in turn, most of all by host code" in turns.says
    assert turns.action == "find what pauses the ranks' hosts in turn"


def layers(kind: str, world: int = 1) -> list[Trace]:
    """Rank 0 of a job whose layers wait for a collective of 0.5 ms in the forward and in the backward pass."""

    def step(job: Trace) -> None:
        for _ in range(3):
            product(job, 500)
            job.collective(kind, 16 * MIB, 500, wait=True)
        for _ in range(3):
            with job.backward():
                product(job, 500)
            reduced(job, 16 * MIB, 500, kind, wait=True)

    return train(step, world=world)


@pytest.mark.parametrize(
    ("kind", "rule", "what", "change"),
    [
        ("all_to_allv", "exposed-communication", "all-to-all, which exchanges experts", "exchange tokens inside nodes"),
        ("send", "pipeline-bubbles", "p stages idle for p - 1", "keep the stages of the pipeline busy"),
        ("allreduce", "exposed-communication", "as tensor parallelism does", "shard layers less"),
    ],
)
def test_the_advice_is_that_of_the_parallelism(kind: str, rule: str, what: str, change: str, tmp_path: Path) -> None:
    general = finding(answer(layers(kind, world=2), tmp_path), rule)

    assert what in general.do
    assert change in general.action
    assert general.do.startswith("Capture all ranks first")
    assert "no_sync" not in general.do


def test_all_ranks_are_not_asked_for_where_they_are_there(tmp_path: Path) -> None:
    """Both stages of a pipeline, whose messages nothing tells apart."""
    jobs = layers("send", world=2)
    other = layers("send", world=2)[0]
    other.rank = 1

    general = finding(answer([*jobs, other], tmp_path), "pipeline-bubbles")

    assert "transfer_share" not in [evidence.fact for evidence in general.evidence]
    assert "Capture all ranks" not in general.do


def test_gradients_reduced_behind_the_backward_pass_are_no_tensor_parallelism(tmp_path: Path) -> None:
    def step(job: Trace) -> None:
        product(job, 500)
        with job.backward():
            product(job, 500)
        job.collective("allreduce", 64 * MIB, 500, wait=True)

    found = answer(train(step), tmp_path)

    assert fact(found, "forward_reduction_share").value == 0
    assert "no_sync" in finding(found, "exposed-communication").do


def test_the_first_all_gather_of_a_step_is_not_said_to_come_late(tmp_path: Path) -> None:
    """The whole model is one FSDP unit, gathered before anything computes."""
    found = answer(train(gathers(400)), tmp_path)

    assert fact(found, "forward_gather_share").value == 0
    assert fact(found, "first_unit_share").value == 1
    assert "late-all-gathers" not in {f.rule for f in found.findings}
    assert "smaller units" in finding(found, "gathered-as-one-unit").do


def unsaid(event: Json) -> None:
    event["args"] = {k: v for k, v in event.get("args", {}).items() if not FIELDS.search(k)}


def test_kernels_without_their_fields_do_not_tell_a_pipeline_from_experts(tmp_path: Path) -> None:
    """NCCL makes sends of an all-to-all."""
    (tmp_path / "rank0.json").write_text(json.dumps(changed(layers("all_to_allv", world=2)[0], unsaid)))

    found = analyze(tmp_path)

    assert "no_sync" in finding(found, "exposed-communication").do
    assert [fact(found, name).value for name in ("all_to_all_share", "send_receive_share")] == [None, None]


def test_the_stages_of_a_pipeline_wait_for_each_other_and_for_nobody_late(tmp_path: Path) -> None:
    """Four stages and four micro-batches idle for three sevenths of what they compute; half as large ones for half."""
    simulate(Job(ranks=4, parallelism="pp_dp")).write(tmp_path)
    found = analyze(tmp_path)
    stages = finding(found, "pipeline-bubbles")
    (left_out,) = (n for n in found.not_advised if n.what == "exposed-communication")

    assert found.stragglers == ()
    assert stages.predicted_speedup is not None
    assert 1.15 < stages.predicted_speedup[1] < 1 / (1 - 3 / 14)
    assert "late rank" not in left_out.because
