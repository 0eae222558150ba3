"""Several traces parsed at once: the same traces, in order, whatever happens to a worker."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from trace_files import assert_same, saved, small_job

from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import Loading, load_all, processes, read, workers
from diagnose.trace.workers import worthwhile

pytestmark = pytest.mark.long


def ranks(folder: Path, number: int) -> list[Path]:
    document = small_job().json()
    return [
        saved(folder / f"rank{rank}.json", document | {"distributedInfo": {"rank": rank, "world_size": number}})
        for rank in range(number)
    ]


@pytest.mark.parametrize("jobs", [2, 3, 8])
def test_the_same_traces_in_order(jobs: int, tmp_path: Path) -> None:
    paths = ranks(tmp_path, 4)
    found = list(load_all(paths, Loading(jobs=jobs)))
    assert [trace.metadata["distributedInfo"]["rank"] for trace in found] == [0, 1, 2, 3]
    for path, trace in zip(paths, found, strict=True):
        assert_same(trace, read(path))
        assert trace.path == str(path)


def test_what_a_worker_refuses_is_refused_with_the_same_words(tmp_path: Path) -> None:
    paths = [*ranks(tmp_path, 2), saved(tmp_path / "rank2.json", "no trace")]
    with pytest.raises(UserError) as alone:
        read(paths[2])
    with pytest.raises(UserError) as error:
        list(load_all(paths, Loading(jobs=2)))
    assert error.value.message == alone.value.message


@pytest.mark.parametrize("code", ["import os; os.abort()", "raise MemoryError", "print('{}'); raise SystemExit(1)", ""])
def test_a_worker_that_dies_costs_nothing_but_time(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ranks(tmp_path, 2)
    monkeypatch.setattr(processes, "_START", code)
    for path, trace in zip(paths, load_all(paths, Loading(jobs=2)), strict=True):
        assert_same(trace, read(path))


def test_workers_end_with_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    answer = processes.Worker.answer
    monkeypatch.setattr(processes.Worker, "answer", lambda self, task: started.append(self) or answer(self, task))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    loading = load_all(ranks(tmp_path, 3), Loading(jobs=3))
    next(loading)
    loading.close()  # type: ignore[attr-defined]
    assert started
    assert [worker.process.returncode for worker in started if worker.process.returncode is None] == []
    assert not list(tmp_path.glob("diagnose-*")), "what they packed is gone"


def test_small_traces_or_a_busy_machine_need_no_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = ranks(tmp_path, 3)
    assert worthwhile(paths) == 1
    monkeypatch.setattr(workers, "WORTHWHILE_TEXT_BYTES", 1)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    monkeypatch.setattr("os.getloadavg", lambda: (0.7, 0.7, 0.7), raising=False)
    assert worthwhile(paths) == 3
    assert worthwhile(2 * paths) == workers.MOST_BY_DEFAULT
    assert worthwhile(paths[:1]) == workers.MOST_BY_DEFAULT
    monkeypatch.setattr("os.getloadavg", lambda: (62.3, 0.7, 0.7), raising=False)
    assert worthwhile(paths) == 2
    monkeypatch.setattr("os.getloadavg", lambda: (100.0, 0.7, 0.7), raising=False)
    assert worthwhile(paths) == 1


def test_a_script_needs_no_guard(tmp_path: Path) -> None:
    """Processes that import the caller's script again would run it again."""
    ranks(tmp_path, 2)
    script = saved(
        tmp_path / "script.py",
        "import sys; from pathlib import Path; from diagnose.trace import Loading, load_all; print('once');"
        "print(len(list(load_all(sorted(Path(sys.argv[1]).glob('rank*.json')), Loading(jobs=2)))))",
    )
    done = subprocess.run([sys.executable, str(script), str(tmp_path)], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == (["once", "2"], "")


def test_the_command_says_the_same_with_any_number_of_jobs(tmp_path: Path) -> None:
    ranks(tmp_path, 2)
    one, two = (CliRunner().invoke(main, ["analyze", str(tmp_path), "--json", "--jobs", n]) for n in ("1", "2"))
    assert json.loads(one.stdout) == json.loads(two.stdout)
    assert CliRunner().invoke(main, ["analyze", str(tmp_path), "--jobs", "0"]).exit_code == 2
