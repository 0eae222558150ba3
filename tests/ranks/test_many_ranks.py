"""What a job of many ranks costs grows with its ranks, not with their pairs."""

import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from analysed import GEMM
from digests import digests, together
from kineto import Trace, collective
from long_jobs import calls_counted

from diagnose import intervals as iv
from diagnose.analysis.ranks import analyze_ranks
from diagnose.analysis.workers import AHEAD, Task, _by_processes
from diagnose.attribution.attribution import Attribution
from diagnose.metrics.settings import Settings
from diagnose.ranks import join
from diagnose.ranks.digest import spent_before
from diagnose.trace import Loading, find_run
from diagnose.trace.processes import ProcessPool

pytestmark = pytest.mark.long

FEW, MANY, MOST = 60, 600, 12


def job_of(ranks: int) -> Callable[[], object]:
    """A job in whose two steps every rank meets the others four times, the last rank late by a tenth."""
    noise = np.random.default_rng(1)
    arrive = 1_000_000 * (1 + np.arange(8)[:, None]) + noise.integers(0, 9_000, (8, ranks))
    arrive[:, -1] += 100_000
    joined = digests([together("dp", range(ranks), arrive, 50_000, np.arange(8) // 4)], steps=2)
    return lambda: join(joined)


def folder_of(folder: Path, ranks: int) -> Callable[[], object]:
    """As many files with one event each."""
    folder.mkdir()
    for rank in range(ranks):
        job = Trace(rank=rank, world=ranks)
        job.op("aten::mm")
        job.write(folder / f"rank{rank}.json")
    return lambda: find_run(folder)


def calls_of(action: Callable[[], object]) -> int:
    with calls_counted() as calls:
        action()
    return calls[0]


def test_the_join_grows_as_the_ranks_do() -> None:
    calls_of(job_of(FEW))
    assert calls_of(job_of(MANY)) <= MOST * calls_of(job_of(FEW))


def test_finding_the_files_grows_as_they_do(tmp_path: Path) -> None:
    few, many = folder_of(tmp_path / "few", FEW), folder_of(tmp_path / "many", MANY)
    calls_of(few)
    assert calls_of(many) <= MOST * calls_of(few)


RANKS = 20


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    traces = [Trace(rank=r, world=RANKS) for r in range(RANKS)]
    for _ in range(3):
        for trace in traces:
            with trace.step():
                trace.launch(GEMM, 300)
        collective(traces, "allreduce", 1 << 22, 200, wait=True)
    place = tmp_path_factory.mktemp("job")
    for trace in traces:
        trace.write(place / f"rank{trace.rank}.json")
    return place


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_ranks_of_a_group_are_held_once(folder: Path, jobs: int) -> None:
    """Every trace lists all of them: held by each they would be as many as there are pairs of ranks."""
    read = analyze_ranks(find_run(folder), Settings(), Loading(jobs=jobs))

    groups = [group for digest in read.digests for group in digest.calls.groups]
    assert {group.ranks for group in groups} == {tuple(range(RANKS))}
    assert len(groups) == RANKS
    assert len({id(group) for group in groups}) == 1


def test_answers_that_are_not_taken_yet_are_few(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[Task] = []
    submit = ProcessPool.submit

    def counting(self: ProcessPool[Task, object], task: Task) -> object:
        submitted.append(task)
        return submit(self, task)

    monkeypatch.setattr(ProcessPool, "submit", counting)
    tasks = [Task(path, 0, Settings(), Loading()) for path in sorted(folder.iterdir())]
    answers = _by_processes(tasks, 2)

    next(answers)
    assert len(submitted) == 2 * AHEAD + 1
    assert len(list(answers)) == RANKS - 1


def test_what_was_taken_of_a_process_is_let_go(folder: Path) -> None:
    tasks = [Task(path, 0, Settings(), Loading()) for path in sorted(folder.iterdir())]
    taken = []
    for answer in _by_processes(tasks, 2):
        taken.append(weakref.ref(answer[0]))  # type: ignore[index]
        del answer
        assert sum(digest() is not None for digest in taken) <= 1
    assert len(taken) == RANKS


@pytest.mark.parametrize("seed", range(5))
def test_time_by_cause_is_that_of_its_pieces(seed: int) -> None:
    drawn = np.random.default_rng(seed)
    ends = np.cumsum(drawn.integers(1, 50, 40))
    start, end, causes = ends[::2], ends[1::2], ("gemm", "sync", "none of it")
    found = Attribution(np.array([[0, 2000]]), start, end, drawn.integers(0, 2, 20).astype(np.int32), causes)
    times = np.concatenate((drawn.integers(-10, 1100, 30), start, end))

    spent = spent_before(found, times)
    assert spent.shape == (len(times), 3)
    for number, cause in enumerate(causes):
        assert spent[:, number].tolist() == iv.covered_before(found.pieces(cause), times).tolist()


def test_time_of_no_cause() -> None:
    nothing = np.zeros(0, np.int64)
    found = Attribution(np.array([[0, 10]]), nothing, nothing, nothing.astype(np.int32), ())
    assert spent_before(found, np.array([5, 10])).shape == (2, 0)
