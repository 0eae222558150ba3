"""Several traces parsed at once: the same traces, in order, whatever happens to a worker."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from trace_files import assert_same, saved, small_job

from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import Loading, cache, load_all, processes, read, workers
from diagnose.trace.workers import worthwhile

pytestmark = pytest.mark.long


def ranks(folder: Path, number: int) -> list[Path]:
    folder.mkdir(exist_ok=True)
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


NO_THREADS = """
import _thread, threading
def none(*_, **__):
    raise RuntimeError("can't start new thread")
_thread.start_new_thread = _thread.start_new = threading._start_new_thread = threading._start_joinable_thread = none
"""


def limited(code: str, command: list[str], cache: Path) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, in which `code` has taken something away."""
    started = f"import sys\n{code}\nfrom diagnose.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", started, *command]
    env = os.environ | {"DIAGNOSE_CACHE_DIR": str(cache)}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("descriptors", [5, 8, 10, 12])
@pytest.mark.parametrize("files", [1, 3])
def test_without_descriptors_the_command_does_it_all_itself(files: int, descriptors: int, tmp_path: Path) -> None:
    path = ranks(tmp_path / "job", files)[0]
    given = path if files == 1 else path.parent
    code = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({descriptors}, {descriptors}))"

    done = limited(code, ["analyze", str(given), "--jobs", "2", "--json"], tmp_path / "cache")

    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)["trace"]["files"]) == files


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_without_threads_the_command_does_it_all_itself(jobs: str, tmp_path: Path) -> None:
    folder = ranks(tmp_path / "job", 3)[0].parent

    done = limited(NO_THREADS, ["analyze", str(folder), "--jobs", jobs, "--json"], tmp_path / "cache")

    assert (done.returncode, done.stderr) == (0, "")


def test_without_threads_a_trace_is_read_hashed_and_kept_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ranks(tmp_path, 1)[0]
    monkeypatch.setattr(cache, "SMALLEST_FILE_BYTES", 1)
    monkeypatch.setattr(cache, "SMALLEST_TEXT_BYTES", 1)
    monkeypatch.setattr(threading.Thread, "start", no_thread)

    kept = cache.Cache(tmp_path / "cache")
    key = kept.key(path)
    assert key is not None
    with kept.keeping(key, path) as handed:
        handed(read(path, ahead=True))

    assert_same(cache.Cache(tmp_path / "cache").get(key, path), read(path))
    assert cache.digest(path, threads=4) == cache.digest(path)


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")
