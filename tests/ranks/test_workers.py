"""Traces of a large job read by several processes, here and on a Dask cluster; a worker that dies costs only time."""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace, collective
from msgspec.structs import replace
from needs import needs
from simulator import Clocks, Fault, Job, simulate

from diagnose.analysis import Options, analyze
from diagnose.analysis.ranks import MOST_MEASURED
from diagnose.analysis.workers import Task
from diagnose.analysis.workers import cluster as cluster_results
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError
from diagnose.metrics.settings import Settings
from diagnose.trace import Loading, processes

pytestmark = pytest.mark.long

RANKS, LATE = 20, 13


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job of 20 ranks in which rank 13 waits 5 ms for its loader in every step of 8 ms."""
    traces = [Trace(rank=r, world=RANKS) for r in range(RANKS)]
    for _ in range(4):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                trace.loader(us=5000 if trace.rank == LATE else 100)
                for _ in range(10):
                    trace.launch(GEMM, 300)
            collective(traces, "allreduce", 1 << 22, 200, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    place = tmp_path_factory.mktemp("job")
    for trace in traces:
        trace.write(place / f"rank{trace.rank}.json")
    return place


def diagnosed(folder: Path, **how: Any) -> Diagnosis:
    scheduler = how.pop("scheduler", None)
    return analyze(folder, options=Options(loading=Loading(**how), scheduler=scheduler))


@pytest.fixture(scope="module")
def alone(folder: Path) -> Diagnosis:
    """What one process says."""
    return diagnosed(folder)


def test_all_ranks_are_joined_and_some_measured_in_full(alone: Diagnosis) -> None:
    assert alone.postmortem is not None
    assert [(s.rank, s.cause) for s in alone.stragglers] == [(LATE, "data")]
    assert len(alone.ranks) == RANKS
    assert len(alone.postmortem.measured_ranks) == MOST_MEASURED
    assert LATE in alone.postmortem.measured_ranks


def test_the_parts_of_all_ranks_add_up_to_their_steps(alone: Diagnosis) -> None:
    assert sum(entry.ns for entry in alone.ledger) == alone.steps.device_time_ns
    assert sum(part.ns for part in alone.waterfall) == alone.steps.device_time_ns


def test_processes_say_the_same(folder: Path, alone: Diagnosis) -> None:
    assert diagnosed(folder, jobs=2) == alone


def test_a_process_that_dies_costs_only_time(folder: Path, alone: Diagnosis, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = processes.Worker._started

    def remembered(self: processes.Worker[Task, Any]) -> subprocess.Popen[bytes]:
        started.append(start(self))
        return started[-1]

    tasks, answer = itertools.count(1), processes.Worker.answer

    def third_is_too_much(self: processes.Worker[Task, Any], task: Task) -> Any:
        if next(tasks) == 3:
            self.process.kill()
        return answer(self, task)

    monkeypatch.setattr(processes.Worker, "_started", remembered)
    monkeypatch.setattr(processes.Worker, "answer", third_is_too_much)

    assert diagnosed(folder, jobs=2) == alone
    assert len(started) == 2 + 1, "two for the digests, one for the dead one; small ranks are read in full without"
    assert all(process.poll() is not None for process in started), "none is left behind"


def test_a_file_that_cannot_be_used_is_named(folder: Path, tmp_path: Path) -> None:
    for path in folder.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "rank5.json").unlink()
    (tmp_path / "rank5.json").write_text('{"traceEvents": [], "distributedInfo": {"rank": 5}}')

    with pytest.raises(UserError) as refused:
        diagnosed(tmp_path, jobs=2)
    assert "rank5.json" in str(refused.value)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A scheduler and three worker processes on this machine."""
    distributed = pytest.importorskip("distributed", reason="needs dask and distributed")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
    ) as started:
        yield started


@pytest.mark.filterwarnings("ignore")  # distributed warns of sockets and event loops that it closes itself
def test_a_cluster_says_the_same_of_a_simulated_job(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs dask and distributed")
    late = Fault("data", (11,))
    simulate(Job(ranks=64, steps=3, clocks=Clocks(3.0, 20.0), faults=(late,))).write(tmp_path)

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as two:
        found = diagnosed(tmp_path, scheduler=two.scheduler_address)
    assert [(s.rank, s.cause) for s in found.stragglers] == [(11, "data")]
    assert found == diagnosed(tmp_path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
def test_a_cluster_says_the_same_though_a_worker_is_killed(folder: Path, alone: Diagnosis, cluster: Any) -> None:
    def kills_one(path: Path, number: int, of: int) -> None:
        if number == 1 and of == RANKS:
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    assert diagnosed(folder, scheduler=cluster.scheduler_address, watch=kills_one) == alone


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_goes_is_an_error_for_the_user(folder: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs dask and distributed")
    idle = distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1")

    with idle, distributed.Client(idle.scheduler_address, set_as_default=False) as client:
        lost = client.submit(time.sleep, 60)
        lost.cancel()
        watch = cluster_results._Watch(client, [lost])
        said = cluster_results._result(Task(folder / "rank0.json", 0, Settings(), Loading()), lost, watch)

    assert isinstance(said, UserError)
    assert "the Dask scheduler is gone" in str(said)


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_whose_only_worker_is_killed_is_an_error_for_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dask = pytest.importorskip("dask", reason="needs dask and distributed")
    distributed = pytest.importorskip("distributed", reason="needs dask and distributed")
    monkeypatch.setattr("diagnose.analysis.workers.cluster.NO_WORKER_S", 0.3)
    monkeypatch.setattr("diagnose.analysis.workers.cluster.POLL_S", 0.1)
    connecting = "distributed.comm.timeouts.connect"
    with (
        dask.config.set({connecting: "60s"}),
        distributed.LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as empty,
    ):
        address = empty.scheduler_address
        worker = subprocess.Popen([sys.executable, "-m", "dask", "worker", address, "--no-nanny", "--no-dashboard"])

        def kills_it(path: Path, number: int, of: int) -> None:
            if of == RANKS:
                dask.config.set({connecting: "3s"})  # with the worker that is dead
                worker.kill()

        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(1, timeout=180)
        with pytest.raises(UserError, match="no Dask worker is left"):
            diagnosed(folder, scheduler=address, watch=kills_it)
        worker.kill()
        worker.wait()


def test_no_scheduler_is_an_error_for_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("distributed")
    monkeypatch.setattr("diagnose.analysis.workers.cluster.PATIENCE", "1s")

    with pytest.raises(UserError, match="no Dask scheduler"):
        diagnosed(folder, scheduler="tcp://127.0.0.1:9")


def test_one_rank_alone_is_told_with_what_it_waits_for(folder: Path, alone: Diagnosis) -> None:
    one = analyze(folder, options=Options(rank=3))

    assert (one.rank, one.steps.count) == (3, 3)
    # the ledger of a rank among others lists no steps
    in_all = next(rank.ledger for rank in alone.ranks if rank.rank == 3)
    assert tuple(replace(entry, by_step_ns=()) for entry in one.ledger) == in_all
    assert "late-rank-data" in {entry.cause for entry in one.ledger}
    assert [replace(s, first_diverging="") for s in one.stragglers] == [
        replace(s, first_diverging="") for s in alone.stragglers
    ], "what diverges first is told of ranks that were measured"


def test_one_step_alone_is_a_part_of_all(folder: Path) -> None:
    each = [analyze(folder / "rank13.json", options=Options(step=step)) for step in (11, 12, 13)]
    together = analyze(folder / "rank13.json")

    assert [one.steps.count for one in each] == [1, 1, 1]
    assert sum(one.steps.device_time_ns or 0 for one in each) == together.steps.device_time_ns


@pytest.mark.parametrize(("options", "said"), [({"rank": 99}, "no rank 99"), ({"step": 99}, "no step 99 is counted")])
def test_a_rank_or_step_that_is_not_there_is_an_error_for_the_user(
    folder: Path, options: dict[str, int], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        analyze(folder, options=Options(**options))  # type: ignore[arg-type]
