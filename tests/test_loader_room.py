"""Loader workers are proposed within the cores of the rank, as the capture record holds them."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding
from diagnose.probes.apply.reasons import Reason

WORKERS = "num_workers of the DataLoader"


def waiting(
    folder: Path,
    cores: dict[str, Any] | None,
    workers: int = 0,
    loading: dict[str, Any] | None = None,
    shards: int | None = None,
    refuses: list[dict[str, Any]] | None = None,
) -> Diagnosis:
    """A job that waits for data for four fifths of its step."""
    job = Trace()
    for _ in range(5):
        with job.step():
            job.loader(ms=8, workers=workers)
            job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
            job.sync()
    job.write(folder / "rank0.json.gz")
    loader = {"num_workers": workers, "shards": shards}
    record = {"cores": cores, "dataloader": loader, "loading": loading, "refuses": refuses}
    (folder / "capture-rank0.json").write_text(json.dumps({k: v for k, v in record.items() if v is not None}))
    return analyze(folder)


def cores(usable: int, local_ranks: int | None = 1, shared: int | None = None, quota: float | None = None) -> Any:
    return {"usable": usable, "quota": quota, "shared": shared or usable, "local_ranks": local_ranks}


def loads(workers: int, share: float, together: float = 0, busy: float = 1, process: float = 0) -> dict[str, Any]:
    """What is measured of a loader: cores of who is waited for, of all who load, and of the training process."""
    used = {"cpu_ns": share, "together_cpu_ns": together or share, "process_cpu_ns": process or together or share}
    return {"workers": workers, "wall_ns": 1e9, "busy": busy} | {name: 1e9 * cores for name, cores in used.items()}


def data_wait(found: Diagnosis) -> Finding:
    return next(f for f in found.findings if f.rule == "data-wait")


def not_advised(found: Diagnosis) -> dict[str, str]:
    return {n.what: n.because for n in found.not_advised}


@pytest.mark.parametrize(
    ("recorded", "proposed"),
    [
        (cores(64), 10),
        (cores(4), 3),
        (cores(64, local_ranks=16), 3),
        (cores(6, local_ranks=8, shared=64), 5),
        (cores(64, quota=2.5), 1),
    ],
    ids=["as many as hide the wait twice", "one core trains", "16 ranks share 64", "bound to 6 of 64", "a quota"],
)
def test_workers_stay_within_the_cores_of_the_rank(tmp_path: Path, recorded: Any, proposed: int) -> None:
    found = waiting(tmp_path, recorded)
    finding = data_wait(found)

    assert finding.patch is not None
    assert finding.patch.set["num_workers"] == proposed
    assert "the record does not say" not in finding.do
    assert WORKERS not in not_advised(found)


@pytest.mark.parametrize(("share", "proposed"), [(1.003, 1), (1.2, None)])
def test_a_core_that_is_measured_a_little_above_itself_is_one_core(
    share: float, proposed: int | None, tmp_path: Path
) -> None:
    finding = data_wait(waiting(tmp_path, cores(2), loading=loads(0, share)))

    assert (finding.patch.set["num_workers"] if finding.patch else None) == proposed


@pytest.mark.parametrize("recorded", [None, cores(64, local_ranks=None)])
def test_unknown_cores_are_said_and_not_assumed(tmp_path: Path, recorded: Any) -> None:
    finding = data_wait(waiting(tmp_path, recorded))

    assert "their number is not known" in " ".join(finding.do.split())
    assert finding.patch is not None
    assert finding.patch.set["num_workers"] == 10
    assert finding.predicted_speedup is not None
    low, high = finding.predicted_speedup
    assert low < 1.35, "one worker alone is fed at worst"
    assert high is not None
    assert high > 4


@pytest.mark.parametrize("recorded", [cores(1), cores(8, local_ranks=8), cores(64, quota=1.5)])
def test_cores_without_room_take_the_advice_back(tmp_path: Path, recorded: Any) -> None:
    found = waiting(tmp_path, recorded)
    finding = data_wait(found)

    assert finding.severity == "critical"
    assert finding.patch is None
    assert finding.predicted_speedup == pytest.approx((1 / 0.76, 5), rel=0.02), "three tenths of the wait go"
    assert "leaves none for loader workers" in not_advised(found)[WORKERS]
    assert "num_workers" not in finding.do


def test_few_workers_are_predicted_to_leave_a_part_of_the_wait(tmp_path: Path) -> None:
    for name in ("one", "many"):
        (tmp_path / name).mkdir()
    one = data_wait(waiting(tmp_path / "one", cores(2)))
    many = data_wait(waiting(tmp_path / "many", cores(64)))

    assert one.predicted_speedup
    assert many.predicted_speedup
    assert one.predicted_speedup[1] < 1.35  # one worker overlaps 8 ms of loading with 2 ms of work: 10 ms become 8
    assert many.predicted_speedup[0] > 3


@pytest.mark.parametrize(("usable", "share", "slower"), [
    (64, 0.9, 1.3), (8, 0.9, 1.5), (2, 0.9, 1.5),
    (11, 0.06, 1.3), (2, 0.06, 1.3),  # workers that wait leave a core idle, however many there are
    (1, 0.06, 1.5),
])  # fmt: skip
def test_workers_that_leave_no_core_idle_may_slow_the_step_more(
    tmp_path: Path, usable: int, share: float, slower: float
) -> None:
    found = waiting(tmp_path, cores(usable), loading=loads(0, share))

    assert {fact.name: fact.value for fact in found.facts}["most_host_time_factor"] == slower


@pytest.mark.parametrize(("workers", "faster"), [(0, 1.0), (1, 1 / 1.5)])
def test_what_the_profiler_adds_hides_where_the_step_waits_for_workers(
    tmp_path: Path, workers: int, faster: float
) -> None:
    found = waiting(tmp_path, cores(64), workers=workers, loading=loads(workers, 0.06))

    assert {fact.name: fact.value for fact in found.facts}["least_host_time_factor"] == pytest.approx(faster)


@pytest.mark.parametrize(
    ("workers", "shards", "proposed", "action"),
    [
        (0, 4, 4, "num_workers=4"),
        (0, 1, 1, "num_workers=1"),
        (0, 64, 10, "num_workers=10"),
        (4, 4, None, "give the stream more shards"),
    ],
)
def test_no_more_workers_are_proposed_than_the_stream_has_shards(
    tmp_path: Path, workers: int, shards: int, proposed: int | None, action: str
) -> None:
    finding = data_wait(waiting(tmp_path, cores(64), workers=workers, loading=loads(workers, 0.06), shards=shards))

    assert (finding.patch.set["num_workers"] if finding.patch else None) == proposed
    assert action in finding.action


def test_workers_load_no_faster_than_they_make_batches(tmp_path: Path) -> None:
    """Four make a batch of 8 ms in 2 ms, as long as the rest of the step: no step gets shorter."""
    finding = data_wait(waiting(tmp_path, cores(64), loading=loads(0, 0.06), shards=4))

    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[1] == pytest.approx(5, rel=0.03)


def test_a_stream_that_each_worker_would_repeat_is_to_be_split(tmp_path: Path) -> None:
    repeated = {"target": "dataloader", "key": "num_workers", "value": None, "binds": "job", "unless_set": None}
    refuses = [{**repeated, "because": Reason.REPEATED.text}]
    finding = data_wait(waiting(tmp_path, cores(64), loading=loads(0, 0.06), refuses=refuses))

    assert finding.patch is None
    assert finding.action == "split the stream, then load with workers"
    assert "get_worker_info" in finding.do
    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[0] > 3, "the workers of a split stream hide what they hide of other data"


def test_a_worker_that_computes_may_get_half_a_core_where_none_is_idle(tmp_path: Path) -> None:
    for name in ("shared", "spare"):
        (tmp_path / name).mkdir()
    shared = data_wait(waiting(tmp_path / "shared", cores(2), loading=loads(0, 1)))
    spare = data_wait(waiting(tmp_path / "spare", cores(3, local_ranks=1), loading=loads(0, 1)))

    assert shared.patch is not None
    assert shared.patch.set["num_workers"] == 1
    assert shared.predicted_speedup is not None
    assert shared.predicted_speedup[0] == 1.0  # one worker loads 8 ms in 16, longer than the step of 10
    assert spare.predicted_speedup is not None
    assert spare.predicted_speedup[0] == pytest.approx(1.25, abs=0.01)  # two of them load a batch in 8 ms


def test_workers_that_compute_on_all_cores_are_not_to_be_raised(tmp_path: Path) -> None:
    finding = data_wait(waiting(tmp_path, cores(5), workers=4, loading=loads(4, 0.95)))

    assert "compute (95.0 % of a core) and already use the 5 cores" in " ".join(finding.do.split())
    assert finding.patch is None
    assert finding.predicted_speedup == pytest.approx((1 / 0.76, 5), rel=0.02), "loading leaves the run"


def test_workers_that_sleep_are_raised_above_the_cores(tmp_path: Path) -> None:
    finding = data_wait(waiting(tmp_path, cores(2), workers=2, loading=loads(2, 0.06)))

    assert finding.patch is not None
    assert finding.patch.set["num_workers"] == 16
    assert "even if that is more than the cores" in finding.do
    assert "6.0 % of a core" in finding.do


def test_a_loader_without_workers_that_sleeps_gets_more_of_them_than_cores(tmp_path: Path) -> None:
    finding = data_wait(waiting(tmp_path, cores(2), loading=loads(0, 0.06)))

    assert finding.patch is not None
    assert finding.patch.set["num_workers"] == 10
    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[0] > 3


def test_threads_that_take_turns_are_told_to_be_processes(tmp_path: Path) -> None:
    finding = data_wait(waiting(tmp_path, cores(8), loading=loads(0, 0.02, together=0.95, busy=4)))

    assert "instead of in threads of the main process" in finding.do
    assert finding.patch is not None
    assert finding.patch.set["num_workers"] == 7


def test_workers_whose_cause_is_unknown_are_told_both_cases(tmp_path: Path) -> None:
    finding = data_wait(waiting(tmp_path, cores(5), workers=4))

    assert "If they compute" in " ".join(finding.do.split())
    assert "if they wait" in finding.do
    assert "diagnose run" not in finding.do
    assert "already use" not in finding.do


@pytest.mark.parametrize(
    ("loading", "bound"),
    [
        (loads(4, 0.95), "cpu"),
        (loads(4, 0.2, together=1.8), "cpu"),
        (loads(4, 0.06), "io"),
        (loads(4, 0.5), "both"),
        (loads(0, 0.97), "cpu"),
        (loads(0, 0.02, together=0.9, busy=4), "gil"),
        (loads(0, 0.02, together=1.9, busy=4), "cpu"),
        (loads(0, 0.02, process=0.9), None),
        ({"workers": 4, "unmeasured": "the CPU time of loader workers can be read on Linux only"}, None),
        (None, None),
    ],
    ids=["compute", "share two cores", "sleep", "do both", "itself", "threads", "free threads", "native", "mac", "old"],
)
def test_what_bounds_the_loader(tmp_path: Path, loading: Any, bound: str | None) -> None:
    found = waiting(tmp_path, cores(2), workers=4, loading=loading)

    assert {fact.name: fact.value for fact in found.facts}["loader_bound"] == bound


@pytest.mark.parametrize(("late", "told"), [((3,), True), ((1, 2, 3, 4), False)], ids=["one step", "every step"])
def test_a_wait_of_one_step_is_cured_by_no_more_workers(tmp_path: Path, late: tuple[int, ...], told: bool) -> None:
    job = Trace()
    for number in range(5):
        with job.step():
            job.loader(ms=8 if number in late else 0, workers=4)
            job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
            job.sync()
    job.write(tmp_path / "rank0.json.gz")

    found = data_wait(analyze(tmp_path))

    assert ("persistent_workers=True" in found.do and "more workers shorten no single wait" in found.do) == told
