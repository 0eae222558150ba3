"""What a loader needs, by the facts that the record holds: passes, starts of workers, their cores, lack of a core."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace
from lines.lines_jobs import samples, told

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding
from diagnose.metrics.data.loader_work import LoadingTime, what_bounds

MS = 1_000_000
STARTS = "workers-started-each-pass"
PASSES_LEFT = "passes-left-early"
LOADING_BEYOND_WORKERS = "loading-beyond-workers"
CORES = {"usable": 2, "quota": None, "shared": 2, "local_ranks": 1}


def job(folder: Path, workers: int, loading: dict[str, Any], **more: Any) -> Diagnosis:
    """A job on two cores that waits 8 of the 10 ms of a step for data, with so many workers."""
    trace = Trace()
    for _ in range(5):
        with trace.step():
            trace.loader(ms=8, workers=workers)
            trace.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
            trace.sync()
    trace.write(folder / "rank0.json.gz")
    record = {"cores": CORES, "dataloader": {"num_workers": workers}, "loading": {"workers": workers, **loading}}
    (folder / "capture-rank0.json").write_text(json.dumps(record | more))
    return analyze(folder)


def worked(computes: float, ready: float, together: float = 0.0) -> dict[str, Any]:
    """Who loads computes and is ready without a core for so much of a second of waiting."""
    used = {"cpu_ns": computes, "together_cpu_ns": together or computes, "process_cpu_ns": computes, "ready_ns": ready}
    return {"wall_ns": 1000 * MS, "busy": 1} | {name: 1000 * MS * part for name, part in used.items()}


def passes(batches: int | None, firsts_ms: list[float], waited_ms: float, fetched: int, **more: Any) -> dict[str, Any]:
    """Passes over a loader, each of which waited so long for its first batch."""
    seen = len(firsts_ms)
    told = {"batches": batches, "seen": seen, "anew": seen, "loaders": 1, "persistent": False, "fetched": fetched}
    steps = [1 + (batches or 0) * number for number in range(seen)]
    waits = {"first_wait_ns": [each * MS for each in firsts_ms], "waited_ns": waited_ms * MS, "steps": steps}
    return {"passes": told | waits | more}


def found(diagnosis: Diagnosis, rule: str) -> Finding | None:
    return next((each for each in diagnosis.findings if each.rule == rule), None)


def fact(diagnosis: Diagnosis, name: str) -> Any:
    return next(each.value for each in diagnosis.facts if each.name == name)


def advice(finding: Finding | None) -> str:
    assert finding is not None
    return " ".join(finding.do.split())


@pytest.mark.parametrize(
    ("computes", "ready", "bound"),
    [(0.95, 0.0, "cpu"), (0.5, 0.25, "cpu"), (0.2, 0.7, "core"), (0.1, 0.1, "io"), (0.3, 0.2, "both")],
)
def test_only_what_neither_computing_nor_a_missing_core_explains_is_waiting(
    computes: float, ready: float, bound: str
) -> None:
    assert what_bounds(LoadingTime(computes, ready)) == bound


@pytest.mark.parametrize(("cores", "bound"), [(0.2, "io"), (1.0, None)])
def test_without_the_run_delay_workers_that_use_a_whole_core_may_lack_another(cores: float, bound: str | None) -> None:
    """Four workers that share one core compute a quarter of the time each, as four that sleep do on four cores."""
    assert what_bounds(LoadingTime(0.17, None, together=0.25, cores=cores)) == bound


def test_workers_bound_to_one_core_are_named_before_anything_else(tmp_path: Path) -> None:
    said = job(tmp_path, 4, worked(0.2, 0.7, together=1.0) | {"worker_cores": 1})
    finding = found(said, "data-wait")

    assert finding is not None
    assert "os.sched_setaffinity(0, range(os.cpu_count())) in worker_init_fn: workers may use 1 of 2" in advice(finding)
    assert finding.patch is None
    assert "disk" not in advice(finding)
    assert fact(said, "loader_worker_room") <= 1


def test_workers_on_twice_the_cores_make_batches_twice_as_fast_at_most(tmp_path: Path) -> None:
    finding = found(job(tmp_path, 4, worked(0.2, 0.7, together=1.0) | {"worker_cores": 1}), "data-wait")

    assert finding is not None
    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[1] == pytest.approx(2, rel=0.1)


def test_workers_without_a_core_get_no_more_of_them(tmp_path: Path) -> None:
    finding = found(job(tmp_path, 4, worked(0.2, 0.7, together=0.8) | {"worker_cores": 2}), "data-wait")

    assert finding is not None
    assert "no core for 70.0 % of the time" in advice(finding)
    assert finding.patch is None


def test_workers_that_sleep_are_still_raised_above_the_cores(tmp_path: Path) -> None:
    finding = found(job(tmp_path, 2, worked(0.05, 0.02) | {"worker_cores": 2}), "data-wait")

    assert finding is not None
    assert finding.patch is not None
    assert finding.patch.set["num_workers"] > 2
    assert "waits for disk, network or a timer" in advice(finding)


def test_what_is_not_measured_is_said_with_its_reason(tmp_path: Path) -> None:
    finding = found(job(tmp_path, 4, {"unmeasured": "the worker that was waited for is gone"}), "data-wait")

    assert "is unknown: the worker that was waited for is gone" in advice(finding)
    assert "diagnose run" not in advice(finding)


def test_two_batches_per_pass_get_no_workers(tmp_path: Path) -> None:
    short = worked(1.0, 0.0) | passes(2, [3.0] * 20, waited_ms=80, fetched=40)
    said = job(tmp_path, 0, short, batch={"bytes": 2 << 20})
    finding = found(said, "data-wait")

    assert finding is not None
    assert finding.patch is None
    assert "2 batches" in advice(finding)
    assert any(each.because.startswith("2 batches per pass: workers would cost about") for each in said.not_advised)


def test_many_batches_per_pass_get_workers(tmp_path: Path) -> None:
    long = worked(1.0, 0.0) | passes(500, [8.0] * 2, waited_ms=8000, fetched=1000)
    finding = found(job(tmp_path, 0, long, batch={"bytes": 2 << 20}), "data-wait")

    assert finding is not None
    assert finding.patch is not None
    assert finding.patch.set == {"num_workers": 1, "persistent_workers": True}


def test_kept_workers_that_make_a_batch_each_of_a_pass_are_not_worth_having(tmp_path: Path) -> None:
    kept = passes(2, [100.0] + [9.0] * 19, 100 + 39 * 6, 40, persistent=True, anew=1, batch_cpu_ns=3 * MS)
    finding = found(job(tmp_path, 2, worked(0.5, 0.3) | kept), "data-wait")

    assert finding is not None
    assert "(num_workers=0 of the DataLoader)" in advice(finding) or "num_workers=0" in advice(finding)
    assert finding.patch is None


def test_workers_that_start_in_each_pass_are_to_be_kept_and_not_to_be_more(tmp_path: Path) -> None:
    starts = passes(12, [1500.0, 1500.0], waited_ms=3020, fetched=24) | {"wait_ns": [0.2 * MS] * 20}
    steps = {"control_before_ns": [20 * MS] * 3, "control_after_ns": [20 * MS] * 3, "active_ns": [20 * MS] * 5}
    said = job(tmp_path, 2, worked(0.1, 0.0) | starts, steps=steps)
    finding = found(said, STARTS)

    assert finding is not None
    assert finding.patch is not None
    assert finding.patch.set == {"persistent_workers": True}
    assert "steps 13, 25, 37, ..." in advice(finding)
    assert fact(said, "worker_start_ns") == (1500 - 2 * 20) * MS, "without the batch that a worker makes in two steps"
    assert fact(said, "worker_start_share") == pytest.approx(1460 / (1460 + 12 * 20), rel=0.01)
    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[0] > 2, "the starts of the whole run count, not those of the window"
    assert found(said, "data-wait") is None


def test_steps_that_are_long_hide_no_start_of_workers_that_make_batches_soon(tmp_path: Path) -> None:
    """A batch takes 1 ms of computing, by workers that compute a tenth of the time: 10 ms."""
    starts = passes(12, [1500.0, 1500.0], waited_ms=3020, fetched=24, batch_cpu_ns=1 * MS)
    steps = {"control_before_ns": [700 * MS] * 3, "control_after_ns": [700 * MS] * 3, "active_ns": [700 * MS] * 5}
    said = job(tmp_path, 2, worked(0.1, 0.0) | starts, steps=steps)

    assert fact(said, "worker_start_ns") == (1500 - 10) * MS


def test_a_first_batch_that_takes_long_to_make_is_no_start(tmp_path: Path) -> None:
    """Eight workers that take two seconds for a batch each give one in a quarter of a second."""
    slow = passes(12, [2000.0, 2000.0], waited_ms=9000, fetched=24)
    steps = {"control_before_ns": [250 * MS] * 3, "control_after_ns": [250 * MS] * 3, "active_ns": [250 * MS] * 5}
    said = job(tmp_path, 8, worked(0.9, 0.0) | slow, steps=steps)

    assert found(said, STARTS) is None


def test_a_loader_that_is_made_for_each_pass_is_to_be_made_once(tmp_path: Path) -> None:
    starts = passes(12, [1500.0, 1500.0], waited_ms=3020, fetched=24, loaders=2) | {"wait_ns": [0.2 * MS] * 20}
    finding = found(job(tmp_path, 2, worked(0.1, 0.0) | starts), STARTS)

    assert finding is not None
    assert finding.patch is None
    assert "Make the DataLoader once" in advice(finding)


def test_workers_that_stay_do_not_start_in_each_pass(tmp_path: Path) -> None:
    kept = passes(12, [1500.0, 3.0, 3.0], waited_ms=1600, fetched=36, persistent=True, anew=1)

    assert fact(job(tmp_path, 2, worked(0.1, 0.0) | kept), "worker_start_share") == 0


@pytest.mark.parametrize(
    ("taken", "whole", "firsts", "ended", "fires"),
    [
        (1, 3125, 12, 0, True), (1, None, 12, 0, True), (1, 1, 12, 0, False), (1, None, 12, 11, False),
        (300, 300, 12, 0, False), (1, 3125, 3, 0, False),
    ],
    ids=["next(iter(loader))", "of unknown length", "one batch is all", "gone through", "many batches", "seldom"],
)  # fmt: skip
def test_passes_that_are_left_after_a_batch_are_to_be_one(
    taken: int, whole: int | None, firsts: int, ended: int, fires: bool, tmp_path: Path
) -> None:
    field = samples(("collate", "loading", "tensor", 60), ("train_step", "backward", None, 20))
    loading = passes(taken, [8.0] * firsts, 8.0 * firsts, firsts * taken, length=whole, gone_through=ended)
    said = job(tmp_path, 0, loading, stack_samples=field)
    finding = found(said, PASSES_LEFT)

    assert (finding is not None) == fires
    assert finding is None or (said.findings[0] is finding and "next(batches)" in advice(finding))
    assert finding is None or told(finding) == ["collate data.py:31 0.75"]


@pytest.mark.parametrize(("times", "fires"), [(3, True), (1, False)])
def test_samples_that_every_worker_gives_are_a_finding(times: int, fires: bool, tmp_path: Path) -> None:
    said = job(tmp_path, 3, {}, dataloader={"num_workers": 3, "times_repeated": times})

    assert (found(said, "samples-repeated-by-workers") is not None) == fires


def test_work_that_the_cores_cannot_hide_is_to_become_less(tmp_path: Path) -> None:
    """Of 10 ms on two cores, of which 8 load: a worker still takes 8, and training 2 beside it."""
    field = samples(("collate", "loading", "tensor", 60), ("train_step", "backward", None, 20))
    said = job(tmp_path, 0, worked(0.95, 0.0), stack_samples=field)

    finding = found(said, LOADING_BEYOND_WORKERS)
    assert finding is not None
    assert finding.severity == "critical"
    assert said.findings[0] is finding
    assert told(finding) == ["collate data.py:31 0.75"]
    assert fact(said, "least_data_wait_left_share") == pytest.approx((8 - 2) / 8, abs=0.03)
    assert found(said, "data-wait") is not None


@pytest.mark.parametrize(("usable", "computes"), [(16, 0.95), (2, 0.05)])
def test_loading_that_workers_hide_or_that_waits_for_a_disk_is_left_to_them(
    tmp_path: Path, usable: int, computes: float
) -> None:
    said = job(tmp_path, 0, worked(computes, 0.0), cores=CORES | {"usable": usable, "shared": usable})

    assert found(said, LOADING_BEYOND_WORKERS) is None
    assert said.findings[0].rule == "data-wait"
