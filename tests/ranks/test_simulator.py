"""The simulator of benchmarks/: its traces load without loss, and its truth is what they show."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from simulator import CAUSES, KINDS, Clocks, Fault, Job, Simulated, simulate
from simulator.events import Row
from simulator.job import PARALLELISMS
from simulator.truth import read_truth

from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import find_run, read

pytestmark = pytest.mark.long

US, MS = 1_000, 1_000_000
SKEWED = Clocks(offset_ms=3, drift_ppm=50)


def written(job: Job, folder: Path) -> dict[int, Timeline]:
    simulate(job).write(folder, gz=False)
    return {rank: timeline_of(read(folder / f"rank{rank}.json"), rank) for rank in range(job.ranks)}


def collectives(timelines: dict[int, Timeline]) -> dict[tuple[str, int], dict[int, tuple[int, int]]]:
    """Group and Seq of each collective -> rank -> start and end."""
    found: dict[tuple[str, int], dict[int, tuple[int, int]]] = defaultdict(dict)
    for rank, line in timelines.items():
        table, trace = line.trace.collectives, line.trace
        for i in np.flatnonzero(trace.rows_of("kernel")[table.row]):
            start = int(trace.ts[table.row[i]])
            found[table.group[i], int(table.seq[i])][rank] = (start, start + int(trace.dur[table.row[i]]))
    return found


def kernels(simulated: Simulated) -> list[Row]:
    return [row for row in simulated.machine.rows if row.cat == "kernel" and not row.name.startswith("nccl")]


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_traces_load_without_loss_and_every_launch_has_its_activity(parallelism: str, tmp_path: Path) -> None:
    lines = written(Job(ranks=8, steps=3, parallelism=parallelism), tmp_path)  # type: ignore[arg-type]

    for line in lines.values():
        assert line.trace.loss.events == 0
        assert (line.lost_launches, line.steps.numbers) == (0, (11, 12))
        assert (line.gpu.launch >= 0).all()
        assert (line.gpu.start >= line.gpu.launch_end).all()


@pytest.mark.parametrize("parallelism", PARALLELISMS)
def test_no_two_activities_of_a_stream_overlap(parallelism: str, tmp_path: Path) -> None:
    gpu = written(Job(ranks=8, steps=2, parallelism=parallelism), tmp_path)[3].gpu  # type: ignore[arg-type]

    for stream in np.unique(gpu.stream):
        own = gpu.stream == stream
        assert (gpu.start[own][1:] >= gpu.end[own][:-1]).all()


@pytest.mark.parametrize("parallelism", ["ddp", "fsdp", "tp_dp"])
def test_a_collective_ends_on_all_its_ranks_together_once_the_clocks_are_undone(
    parallelism: str, tmp_path: Path
) -> None:
    job = Job(ranks=8, ranks_per_node=2, steps=2, parallelism=parallelism, clocks=SKEWED)  # type: ignore[arg-type]

    found = collectives(written(job, tmp_path))

    offset = read_truth(tmp_path).offset_ns
    drifted = 50e-6 * 2 * 20 * MS  # two steps of 20 ms
    for ranks in found.values():
        ends = [end - offset[rank] for rank, (_, end) in ranks.items()]
        starts = [start - offset[rank] for rank, (start, _) in ranks.items()]
        assert max(ends) - min(ends) <= job.links.end_jitter_us * US + 2 * drifted
        assert min(ends) > max(starts)


def test_groups_hold_the_ranks_they_name(tmp_path: Path) -> None:
    lines = written(Job(ranks=8, steps=2, parallelism="tp_dp", model_parallel=2), tmp_path)

    members: dict[str, list[int]] = {}
    for line in lines.values():
        for group in line.trace.metadata["distributedInfo"]["pg_config"]:
            members[group["pg_name"]] = group["ranks"]
    assert members["1"] == [0, 1]
    assert members["5"] == [0, 2, 4, 6]
    for (group, _), ranks in collectives(lines).items():
        assert sorted(ranks) == members[group]


def test_a_message_in_the_pipeline_has_two_ends() -> None:
    rows = simulate(Job(ranks=8, steps=1, parallelism="pp_dp", batched=False)).machine.rows
    sent = [r for r in rows if r.cat == "kernel" and '"Collective name": "send"' in r.args]
    received = [r for r in rows if r.cat == "kernel" and '"Collective name": "recv"' in r.args]

    for send, receive in zip(sent, received, strict=True):
        source, target = send.slots[-2][send.active], send.slots[-1][send.active]
        assert source.tolist() == np.flatnonzero(send.active).tolist()
        assert target.tolist() == np.flatnonzero(receive.active).tolist()
        assert (abs(send.end[source] - receive.end[target]) <= 2 * US).all()


OF_A_RANK = [kind for kind in KINDS if CAUSES[kind] not in ("", "link", "stage")]


@pytest.mark.parametrize("kind", OF_A_RANK)
def test_a_fault_prolongs_the_step_and_makes_the_others_wait(kind: str) -> None:
    truth = simulate(Job(ranks=8, steps=2, faults=(Fault(kind, (5,)),))).truth  # type: ignore[arg-type]

    assert [(late.rank, late.cause) for late in truth.late] == [(5, CAUSES[kind])]  # type: ignore[index]
    assert truth.slowdown_ms[1] > 0.1 * truth.step_ms[1]
    assert truth.waiting_ms[1] > 7 * 0.8 * truth.slowdown_ms[1], "seven ranks wait for one"


def test_a_late_batch_costs_what_it_is_late() -> None:
    truth = simulate(Job(ranks=8, steps=3, faults=(Fault("data", (2,), size=8, since_step=1),))).truth

    assert truth.slowdown_ms[0] == truth.waiting_ms[0] == 0
    assert truth.slowdown_ms[1:] == pytest.approx([8, 8], abs=0.2)


@pytest.mark.parametrize("kind", ["slow_kernels", "data", "host", "sync", "gc", "checkpoint", "more_kernels"])
def test_the_faulty_job_and_its_healthy_twin_run_the_same_kernels_on_all_other_ranks(kind: str) -> None:
    faulty = simulate(Job(ranks=4, steps=2, faults=(Fault(kind, (1,)),)))  # type: ignore[arg-type]
    healthy = simulate(Job(ranks=4, steps=2))

    for rank in (0, 2, 3):
        durations = [[int((r.end - r.begin)[rank]) for r in kernels(s) if r.active[rank]] for s in (faulty, healthy)]
        assert durations[0] == durations[1]


def test_a_slow_link_slows_only_the_groups_that_use_it(tmp_path: Path) -> None:
    link = Fault("slow_link", ranks=(4, 5), size=4)
    lines = written(Job(ranks=8, steps=2, parallelism="tp_dp", model_parallel=2, faults=(link,)), tmp_path)

    shortest = defaultdict(list)
    for (group, _), ranks in collectives(lines).items():
        shortest[group].append(min(end - start for start, end in ranks.values()))
    transfer = {group: float(np.median(ns)) for group, ns in shortest.items()}
    assert transfer["3"] == pytest.approx(4 * transfer["1"], rel=0.1), "group 3 holds ranks 4 and 5"
    assert transfer["2"] == pytest.approx(transfer["1"], rel=0.1)
    assert read_truth(tmp_path).slow_links == ((4, 5),)


def test_rotating_lateness_names_nobody() -> None:
    truth = simulate(Job(ranks=8, steps=3, faults=(Fault("rotating"),))).truth

    assert truth.late == ()
    assert min(truth.slowdown_ms) > 1


def test_hosts_share_a_clock_and_are_named(tmp_path: Path) -> None:
    job = Job(ranks=4, ranks_per_node=2, steps=1, clocks=SKEWED, missing=(3,))
    truth = simulate(job).write(tmp_path, gz=False)

    assert truth.offset_ns[0] == truth.offset_ns[1] != truth.offset_ns[2] == truth.offset_ns[3]
    assert [json.loads((tmp_path / f"rank{r}.json").read_text())["host_name"] for r in (1, 2)] == ["node000", "node001"]


def test_the_analysis_sees_the_traces_and_neither_the_truth_nor_missing_ranks(tmp_path: Path) -> None:
    simulate(Job(ranks=4, steps=1, missing=(2,))).write(tmp_path)

    assert [file.rank for file in find_run(tmp_path).files] == [0, 1, 3]


def test_older_traces_have_no_seq_and_large_groups_are_shortened() -> None:
    (_, text), *_ = simulate(Job(ranks=64, steps=1, seq=False)).traces()

    assert '"Seq"' not in text
    assert '28, 29, ...]"' in text


def test_gloo_waits_for_the_late_rank_on_its_worker_threads(tmp_path: Path) -> None:
    lines = written(Job(ranks=2, steps=2, gpu=False, faults=(Fault("data", (1,)),)), tmp_path)

    longest = [
        int(line.trace.dur[line.matching("gloo:all_reduce", "user_annotation")].max()) for line in lines.values()
    ]
    assert longest[0] > longest[1] + 4 * MS
    assert not lines[0].has_gpu


def test_the_same_seed_gives_the_same_bytes_and_another_does_not() -> None:
    texts = [dict(simulate(Job(ranks=2, steps=1, seed=seed)).traces())[1] for seed in (3, 3, 4)]

    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("job", [{"ranks": 6, "parallelism": "tp_dp"}, {"faults": (Fault("gc", (8,)),)}])
def test_an_impossible_job_is_refused(job: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"multiple|no such rank"):
        Job(**job)  # type: ignore[arg-type]
