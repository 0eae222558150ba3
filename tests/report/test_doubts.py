"""Doubts replace or weaken a verdict in its own line, worst first, and no note says them a second time."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace
from machine.machine_jobs import readings
from read_once import diagnosis_of

from diagnose.analysis import analyze
from diagnose.attribution.causes import CAUSES
from diagnose.diagnosis import Diagnosis, Doubt, LedgerEntry, Verdict
from diagnose.judge.verdict import Grounds, verdict_of
from diagnose.report.views.summary import notes_of
from diagnose.rule.rule import Doubting

SAMPLES = Path(__file__).parent.parent.parent / "sample_traces"
MS = 1_000_000
GPU_STEP_MS = 47.8  # of the sample below


def recorded(sample: str, folder: Path, steps: Mapping[str, Any], **record: Any) -> Diagnosis:
    """The diagnosis of a sample with this record beside it."""
    shutil.copy(SAMPLES / sample, folder / "rank0.json.gz")
    (folder / "capture-rank0.json").write_text(json.dumps({"steps": dict(steps), **record}))
    return analyze(folder)


def kinds(verdict: Verdict) -> list[tuple[str, bool]]:
    return [(doubt.kind, doubt.withholds) for doubt in verdict.doubts]


def verdict(*doubts: Doubt, has_gpu: bool = True, factor: float = 1.0, **shares: float) -> Verdict:
    """The verdict on these shares by cause, with doubts as rules have them."""
    named = {name if name in CAUSES else name.replace("_", "-"): share for name, share in shares.items()}
    ledger = [
        LedgerEntry(cause=name, class_=CAUSES[name].class_, ns=1000, share=share) for name, share in named.items()
    ]
    told = tuple(
        Doubting(holds=None, doubt=doubt, unclaimed="host" if doubt.kind == "profiler" else "") for doubt in doubts
    )  # type: ignore[arg-type]
    grounds = Grounds(of="the device step", has_gpu=has_gpu, sized_share=1.0, profiler_factor=factor, doubts=told)
    return verdict_of(tuple(ledger), grounds)


def test_no_doubt_leaves_high_confidence() -> None:
    found = verdict(data_wait=0.6, gemm=0.4)

    assert (found.class_, found.confidence, found.doubts, found.withheld) == ("data-bound", "high", (), "")


def test_doubts_stand_worst_first_and_the_first_that_withholds_is_said() -> None:
    found = verdict(
        Doubt(kind="few-steps", says="one step per rank was counted"),
        Doubt(kind="unlike-controls", says="steps took 69 ms, then 2.2 s", withholds=True),
        Doubt(kind="uneven-steps", says="the counted steps took 90 ms and 1.3 s"),
        data_wait=0.6,
        gemm=0.4,
    )

    assert kinds(found) == [("unlike-controls", True), ("uneven-steps", False), ("few-steps", False)]
    assert (found.class_, found.confidence) == ("undecided", "low")
    assert found.withheld == "the job's speed changed during the capture"
    assert found.because == f"{found.withheld}: steps took 69 ms, then 2.2 s"


@pytest.mark.parametrize(
    ("shares", "class_"),
    [
        ({"python": 0.45, "gemm": 0.55}, "undecided"),  # of 100 ms the profiler adds 37.5: 7.5 of 62.5 remain
        ({"python": 0.6, "gemm": 0.4}, "host-bound"),
        ({"data_wait": 0.6, "gemm": 0.4}, "data-bound"),
    ],
)
def test_a_host_is_claimed_to_bound_steps_if_it_does_without_the_profiler(
    shares: dict[str, float], class_: str
) -> None:
    found = verdict(Doubt(kind="profiler", says="the profiler makes steps 1.60x as long"), factor=1.6, **shares)

    assert (found.class_, found.confidence) == (class_, "low")


@pytest.mark.parametrize("other", ["operator_memory", "operator_unknown", "unclassified_kernel", "aten_other"])
def test_what_is_called_other_carries_no_class(other: str) -> None:
    leads = verdict(**{other: 0.55, "gemm": 0.45})
    adds = verdict(**{other: 0.2, "norm": 0.35, "gemm": 0.45})
    beside = verdict(**{other: 0.1, "data_wait": 0.5, "gemm": 0.4})

    assert (leads.class_, adds.class_, beside.class_) == ("undecided", "undecided", "data-bound")
    assert kinds(leads) == kinds(adds) == [("unnamed", True)]


def test_the_largest_cause_is_other_though_the_class_does_not_hang_on_it() -> None:
    found = verdict(data_wait=0.3, python=0.02, gemm=0.3, operator_memory=0.38)

    assert found.withheld == "38 % of the device step is other operators, more than any known cause"


@pytest.mark.parametrize(
    ("after_ms", "withheld"),
    [([31, 32, 33], ""), ([44, 44, 44], ""), ([46, 47, 48], "the job's speed changed during the capture")],
)
def test_steps_before_and_after_that_differ_withhold_the_verdict(
    after_ms: list[int], withheld: str, tmp_path: Path
) -> None:
    steps = {"control_before_ns": [30 * MS] * 3, "control_after_ns": [ms * MS for ms in after_ms]}
    found = recorded("cpu-healthy.json.gz", tmp_path, steps)

    assert found.verdict.withheld == withheld
    assert (found.next.rule == "speed-changed-in-capture") is bool(withheld)
    if withheld:
        assert found.verdict.doubts[0].says == (
            "without the profiler steps took 30.0 ms, 30.0 ms and 30.0 ms before the recording, 46.0 ms, 47.0 ms and "
            "48.0 ms after it"
        )


def test_one_step_on_each_side_is_too_little_to_differ(tmp_path: Path) -> None:
    steps = {"control_before_ns": [30 * MS], "control_after_ns": [90 * MS]}

    assert "unlike-controls" not in dict(kinds(recorded("cpu-healthy.json.gz", tmp_path, steps).verdict))


@pytest.mark.parametrize(("factor", "doubted"), [(1.4, False), (1.6, True)])
def test_a_slow_profiler_is_a_doubt_and_no_note(factor: float, doubted: bool, tmp_path: Path) -> None:
    ns = round(GPU_STEP_MS * MS / factor)
    steps = {"control_before_ns": [ns] * 3, "control_after_ns": [ns] * 3, "active_ns": [round(GPU_STEP_MS * MS)] * 4}
    found = recorded("synthetic-memory-bound.json.gz", tmp_path, steps)

    assert found.verdict.class_ == "memory-bound"
    assert (found.verdict.confidence == "low") is doubted
    assert ("profiler", False) in kinds(found.verdict) if doubted else not found.verdict.doubts
    assert ("profiler-distortion" in {note.rule for note in notes_of(found)}) is not doubted
    assert "profiler-distortion" in {finding.rule for finding in found.findings}


def test_a_host_that_leads_without_the_profiler_is_claimed_with_low_confidence(tmp_path: Path) -> None:
    sample = "synthetic-tiny-kernels.json.gz"
    plain = diagnosis_of(SAMPLES / sample)
    ns = round((plain.steps.device_time_ns or 0) / plain.steps.count)
    slow = {"control_before_ns": [round(ns / 1.8)] * 3, "active_ns": [ns] * 4}
    found = recorded(sample, tmp_path, slow)

    assert (plain.verdict.class_, found.verdict.class_, found.verdict.confidence) == ("host-bound", "host-bound", "low")
    assert found.next.rule == plain.next.rule


def test_two_steps_are_too_few_for_more_than_low_confidence() -> None:
    found = diagnosis_of(SAMPLES / "h200-llama-eager.json.gz")

    assert (found.verdict.class_, found.verdict.confidence) == ("memory-bound", "low")
    assert [doubt.says for doubt in found.verdict.doubts] == ["two steps per rank were counted"]
    assert "few-steps" not in {note.rule for note in notes_of(found)}


@pytest.mark.parametrize("sample", ["cpu-healthy.json.gz", "h200-slow-loader.json.gz", "synthetic-healthy-8"])
def test_healthy_captures_keep_their_verdict(sample: str) -> None:
    assert not any(doubt.withholds for doubt in diagnosis_of(SAMPLES / sample).verdict.doubts)


def cpu_steps(folder: Path, *each_ms: float, **record: Any) -> Diagnosis:
    """Steps of so many milliseconds on a CPU, all of them a matrix product; the first is not counted."""
    trace = Trace(gpu=None)
    for ms in each_ms:
        with trace.step():
            trace.cpu_op("aten::mm", round(1000 * ms))
    trace.write(folder / "rank0.json")
    if record:
        (folder / "capture-rank0.json").write_text(json.dumps(record))
    return analyze(folder)


@pytest.mark.parametrize(
    ("each_ms", "says"),
    [
        ((20, 20, 20, 20), None),
        ((20, 20, 39, 20, 20), None),
        ((20, 20, 45, 20, 20), "the counted steps took 20.0 ms, 20.0 ms, 20.0 ms and 45.0 ms"),
        ((20, 20, 9, 20, 20), "the counted steps took 9.0 ms, 20.0 ms, 20.0 ms and 20.0 ms"),
        ((20, 20, 20, 20, 20, 20, 45), "the counted steps took from 20.0 ms to 45.0 ms"),
    ],
    ids=["even", "below twice", "above twice", "below half", "many"],
)
def test_steps_of_different_kinds_are_a_doubt(each_ms: tuple[float, ...], says: str | None, tmp_path: Path) -> None:
    doubts = {doubt.kind: doubt.says for doubt in cpu_steps(tmp_path, *each_ms).verdict.doubts}

    assert doubts.get("uneven-steps") == says


def test_a_pass_over_the_loader_that_begins_in_the_window_is_a_doubt(tmp_path: Path) -> None:
    passes = {"seen": 2, "steps": [1, 12], "batches": 11, "fetched": 14, "waited_ns": 1, "anew": 1, "loaders": 1}
    found = cpu_steps(tmp_path, 20, 20, 32, 20, 20, loading={"passes": passes})

    assert "start-in-window" in dict(kinds(found.verdict))


def test_a_window_that_begins_in_the_warm_up_is_a_doubt(tmp_path: Path) -> None:
    found = cpu_steps(tmp_path, 90, 35, 20, 20, 20)

    assert found.verdict.doubts[0].says == (
        "the window begins during warm-up: its first step took 4.50x the median one, the slowest counted one 1.75x"
    )


def test_without_a_verdict_and_a_finding_the_next_step_is_to_name_the_time(tmp_path: Path) -> None:
    trace = Trace(gpu=None)
    for _ in range(5):
        with trace.step():
            trace.cpu_op("aten::mm", 9_000)
            trace.cpu_op("mylib::everything", 11_000)
    trace.write(tmp_path / "rank0.json")
    found = analyze(tmp_path)

    assert (
        found.verdict.withheld
        == "operators of unknown kind take 55 % of the host step: it may be memory-bound or compute-bound"
    )
    assert (found.next.kind, found.next.action) == ("capture", "give the parts of the step names")


def test_a_crowded_host_has_a_bound_and_is_freed_first(tmp_path: Path) -> None:
    crowded = {
        "cores": {"usable": 2, "shared": 2, "local_ranks": 1},
        "torch_settings": {"threads": 1},
        "steps": {
            "first_active_step": 10,
            "active_cpu_ns": [12 * MS] * 5,
            "active_core_wait_ns": [8 * MS] * 5,
        },
        **readings(
            rates={"process_cpu_ns": 0.6e9, "allowed_cores_cpu_ns": 2e9}, limits={"cores": 2, "cores_allowed": 2}
        ),
    }
    found = cpu_steps(tmp_path, 20, 20, 20, 20, 20, **crowded)

    assert found.verdict.withheld == "the machine was too busy to judge this job"
    assert (found.next.rule, found.next.action) == ("crowded-machine", "free the cores and run again")
    assert found.next.predicted_speedup == (1.0, pytest.approx(1 / 0.6, rel=0.01))
    assert "crowded-machine" not in {note.rule for note in notes_of(found)}
