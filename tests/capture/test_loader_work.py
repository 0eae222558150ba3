"""What the probe measures of a loader: the CPU time of who loads, over the time for which a batch is waited for."""

import itertools
import multiprocessing
import time
from types import SimpleNamespace
from typing import Any

import pytest
from capture.scripts import BARE, run
from noisy import noisy

from diagnose.analysis import analyze
from diagnose.probes.facts import loader_work
from diagnose.probes.facts.loader_work import Loaders, LoaderWork

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.capture
SAMPLE_NS = 10_000_000
BATCH = 2


class Sleeping(torch.utils.data.Dataset[Any]):
    """Samples that nobody loads before they are `wanted`: so a worker loads them while they are waited for."""

    def __init__(self) -> None:
        self.wanted = multiprocessing.Semaphore(0)

    def __len__(self) -> int:
        return 6 * BATCH

    def __getitem__(self, index: int) -> Any:
        self.wanted.acquire()
        self.load()
        return torch.zeros(1)

    def load(self) -> None:
        time.sleep(SAMPLE_NS / 1e9)


class Computing(Sleeping):
    def load(self) -> None:
        end = time.thread_time_ns() + SAMPLE_NS
        while time.thread_time_ns() < end:
            pass


def measured(dataset: Any, workers: int) -> dict[str, Any]:
    """The record of one pass over a loader with batches of two."""
    loaders = Loaders()
    iterator = iter(torch.utils.data.DataLoader(dataset, batch_size=BATCH, num_workers=workers))
    for _ in range(6):
        fetched = loaders.fetching(iterator)
        for _ in range(BATCH):
            dataset.wanted.release()
        next(iterator)
        if fetched is not None:
            fetched()
    facts = loaders.facts()
    assert facts is not None
    return facts


@pytest.mark.parametrize("workers", [0, 1])
def test_who_computes_uses_the_cpu_time_of_its_samples(workers: int) -> None:
    found = measured(Computing(), workers)

    assert found["workers"] == workers
    assert found["unmeasured"] is None
    assert found["fetches"] == 5, "the first batch of each worker is left out"
    assert len(found["wait_ns"]) == 5
    assert found["cpu_ns"] >= found["fetches"] * BATCH * SAMPLE_NS
    assert found["cpu_ns"] < 1.1 * found["wall_ns"]  # clocks of two kinds


@pytest.mark.parametrize("workers", [0, 1])
def test_who_sleeps_uses_little_of_the_time(workers: int) -> None:
    found = measured(Sleeping(), workers)

    assert found["fetches"] == 5
    assert found["cpu_ns"] < 0.5 * found["wall_ns"]


def played(workers: int, tick_ns: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The record of one fetch: so much time passes at each look at a clock, and who loads computes all of it."""
    times = itertools.count(0, tick_ns)
    clocks = ("perf_counter_ns", "thread_time_ns", "process_time_ns", "clock_gettime_ns")
    monkeypatch.setattr(loader_work, "time", SimpleNamespace(**dict.fromkeys(clocks, lambda *_: next(times))))
    worker = SimpleNamespace(_popen=SimpleNamespace(pid=7))
    loaders = Loaders()
    fetched = loaders.fetching(
        SimpleNamespace(_num_yielded=1, _workers=[worker] * workers, _task_info={0: (0,)}, _rcvd_idx=0)
    )
    assert fetched is not None
    fetched()
    return loaders.facts()


@pytest.mark.parametrize("workers", [0, 1])
def test_held_up_between_two_clocks_nobody_computes_for_longer_than_the_time(
    workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = played(workers, 1_000_000_000, monkeypatch)

    assert found["fetches"] == 1
    assert max(found["cpu_ns"], found["process_cpu_ns"]) < found["wall_ns"]


@pytest.mark.parametrize(("workers", "fetches"), [(0, 1), (1, 0)])
def test_a_batch_of_a_worker_that_was_there_already_tells_nothing_of_its_work(
    workers: int, fetches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = played(workers, 1000, monkeypatch)

    assert (found["fetches"], len(found["wait_ns"])) == (fetches, 1)


def test_where_no_clock_of_other_processes_is_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_work, "_READABLE", False)
    found = measured(Sleeping(), 1)

    assert found["cpu_ns"] is None
    assert found["unmeasured"] == "the CPU time of loader workers can be read on Linux only"


def test_a_worker_that_is_gone_makes_the_cpu_time_unknown() -> None:
    work = LoaderWork(workers=2)
    work.add(10, before={0: 5, 1: 5}, after={1: 6}, own=0, process_ns=1)

    assert work.facts()["cpu_ns"] is None
    assert work.facts()["unmeasured"] == "the worker that was waited for is gone"


def test_the_record_of_a_run_tells_that_its_loader_sleeps(tmp_path: Any) -> None:
    script = BARE + (
        "import time\n"
        "class Slow(torch.utils.data.TensorDataset):\n"
        "    def __getitem__(self, i):\n"
        "        time.sleep(0.02)\n"  # far longer than a slow machine computes beside it
        "        return super().__getitem__(i)\n"
        "torch.utils.data.TensorDataset = Slow\n"
        "loop()\n"
    )
    done = run(script, tmp_path, {"at_step": 12})
    assert done.returncode == 0, done.stderr
    facts = {fact.name: fact.value for fact in analyze(tmp_path / "out").facts}

    assert facts["loader_bound"] == "io"
    assert facts["loader_cpu_share"] < 0.3


@noisy
def test_micro_batches_of_one_are_told(tmp_path: Any) -> None:
    script = BARE + (
        "model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(24)], nn.Linear(8, 1))\n"
        "optimizer = torch.optim.SGD(model.parameters())\n"
        "data = torch.utils.data.TensorDataset(torch.randn(240, 8))\n"
        "for number, (row,) in enumerate(torch.utils.data.DataLoader(data, batch_size=1), 1):\n"
        "    (model(row).square().mean() / 8).backward()\n"
        "    if number % 8 == 0:\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()\n"
    )
    done = run(script, tmp_path, {"at_step": 8, "steps": 4})
    assert done.returncode == 0, done.stderr
    found = analyze(tmp_path / "out")
    facts = {fact.name: fact.value for fact in found.facts}
    (told,) = [each for each in found.findings if each.rule == "small-micro-batches"]

    assert (facts["accumulation_steps"], facts["micro_batch_size"]) == (8, 1)
    assert "Compute 8 samples at once and accumulate 1 " in told.do
    assert told.predicted_speedup is not None
    assert told.predicted_speedup[0] > 1.2
