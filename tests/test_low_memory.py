"""Little memory: columns on disk, Python functions left out and said so, and a budget that is never exceeded."""

import json
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from kineto import Trace as Job
from trace_files import assert_same, saved, small_job

from diagnose.analysis import Options, analyze
from diagnose.cli import main
from diagnose.cli.loading import _counted, limited
from diagnose.errors import UserError
from diagnose.trace import Loading, load, read
from diagnose.trace.spill import Growing, is_on_disk, let_go

pytestmark = pytest.mark.long

LITTLE = Loading(memory_bytes=1 << 16)
AMPLE = "1T"  # a budget for any process: what else this one holds is no part of a question
MEASURED = """
import json, resource, sys
from pathlib import Path
from diagnose.trace import Loading, load
path, budget, little = Path(sys.argv[1]), int(sys.argv[2]), bool(int(sys.argv[3]))
status = Path("/proc/self/status").read_text().splitlines()
imported = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (imported + budget, imported + budget))
print(len(load(path, Loading(memory_bytes=budget if little else None))))
"""


@pytest.fixture(autouse=True)
def _the_limit_of_a_command_ends_with_it() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


def with_python(document: dict[str, Any], functions: int = 20) -> dict[str, Any]:
    """The trace with calls of Python functions among its events, as with_stack=True records them."""
    first = next(e for e in document["traceEvents"] if e.get("cat") == "cpu_op")
    function = first | {"cat": "python_function", "args": {}}
    calls = [function | {"name": f"train.py({line}): collate"} for line in range(functions)]
    return document | {"traceEvents": [*document["traceEvents"], *calls]}


def test_the_columns_are_the_same_and_on_disk(tmp_path: Path) -> None:
    job = small_job().json()
    path = saved(tmp_path / "t.json", job | {"traceEvents": 20 * job["traceEvents"]})
    found = load(path, LITTLE)
    assert_same(found, read(path))
    assert is_on_disk(found.ts)


def test_columns_on_disk_are_let_go_and_read_again() -> None:
    growing = Growing()
    growing.append(np.arange(4 << 20))
    growing.spill()
    column = growing.finished()
    before = int(column.sum()), _counted()
    let_go()
    after = _counted()
    assert before[1] is not None
    assert after is not None
    assert before[1][0] - after[0] > 24 << 20
    assert column.sum() == before[0]


def test_events_dropped_for_their_damage_leave_the_rest_on_disk(tmp_path: Path) -> None:
    job = small_job().json()
    impossible = next(e for e in job["traceEvents"] if e.get("ph") == "X") | {"dur": -5.0}
    path = saved(tmp_path / "t.json", job | {"traceEvents": [*(20 * job["traceEvents"]), impossible]})
    found = load(path, LITTLE)
    assert_same(found, read(path))
    assert found.loss.events == 1
    assert is_on_disk(found.ts)


def test_python_functions_are_left_out_unless_asked_for(tmp_path: Path) -> None:
    plain, path = small_job().json(), saved(tmp_path / "t.json", with_python(small_job().json()))
    found = load(path, LITTLE)
    assert len(found) == len(read(saved(tmp_path / "plain.json", plain)))
    assert found.left_out == {"python_function": 20}
    assert_same(load(path, Loading(memory_bytes=1 << 16, python_functions=True)), read(path))


def test_nothing_but_what_is_left_out_is_refused(tmp_path: Path) -> None:
    calls = [e for e in with_python(small_job().json())["traceEvents"] if e.get("cat") == "python_function"]
    with pytest.raises(UserError, match="20 events are of kinds that are left out"):
        load(saved(tmp_path / "t.json", calls), LITTLE)


def test_the_report_says_so_and_what_rests_on_them_is_unknown(tmp_path: Path) -> None:
    job = Job()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
    path = saved(tmp_path / "t.json", with_python(job.json()))
    done = CliRunner().invoke(main, ["analyze", str(path), "--low-memory", AMPLE, "--details"])
    assert done.exit_code == 0
    assert "20 events of Python functions, to save memory" in " ".join(done.stdout.split())
    found = analyze(path, options=Options(loading=LITTLE))
    assert found.trace.left_out == 20
    unknown = {entry.rule: entry.capture_next for entry in found.not_judged}
    assert "--python-functions" in unknown["text-work-in-the-loop"]
    assert "--python-functions" in unknown["python-host"]
    kept = CliRunner().invoke(main, ["analyze", str(path), "--low-memory", AMPLE, "--python-functions", "--json"])
    assert json.loads(kept.stdout)["trace"]["left_out"] == 0


def test_a_budget_that_the_columns_alone_would_break(tmp_path: Path) -> None:
    """600,000 events are 22 MB of columns; the budget is what may come on top of the imported modules."""
    event = json.dumps(next(e for e in small_job().json()["traceEvents"] if e.get("cat") == "cpu_op")).encode()
    path = saved(tmp_path / "t.json", b'{"traceEvents": [' + b",".join(600_000 * [event]) + b"]}")

    def run(little: bool) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", MEASURED, str(path), str(22 << 20), str(int(little))]
        return subprocess.run(command, capture_output=True, text=True)

    assert run(little=True).stdout == "600000\n"
    assert "MemoryError" in run(little=False).stderr


def test_a_budget_that_the_modules_alone_would_break_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.json", small_job().json())
    done = CliRunner().invoke(main, ["analyze", str(path), "--low-memory", "1M"])
    assert done.exit_code == 2
    assert "256000000" in done.stderr


def test_what_does_not_fit_ends_with_a_message(tmp_path: Path) -> None:
    """One event's name of 60 MB, read in a budget that leaves room for few copies of it."""
    event = json.dumps(next(e for e in small_job().json()["traceEvents"] if e.get("ph") == "X") | {"name": "x"})
    path = saved(
        tmp_path / "t.json", f'{{"traceEvents": [{event.replace(chr(34) + "x", chr(34) + 60_000_000 * "x")}]}}'
    )
    command = [sys.executable, "-m", "diagnose", "analyze", str(path), "--low-memory", "256M"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert "out of memory" in done.stderr


COUNTED = """
import sys
from diagnose.cli.loading import limited, taken_bytes
budget = int(sys.argv[1])
taken = []
try:
    with limited(budget):
        while True:
            taken.append([bytes(200) for _ in range(100)])
except MemoryError:
    print(taken_bytes() < budget)
"""


def test_many_small_requests_are_counted_before_the_system_refuses_one() -> None:
    """A library in C that does not look whether it got its memory never meets the limit."""
    done = subprocess.run([sys.executable, "-c", COUNTED, str(256 << 20)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n")


def test_one_large_request_is_refused_by_the_system() -> None:
    with pytest.raises(MemoryError), limited(1 << 30):
        np.ones(1 << 30)


def test_the_limit_and_its_signal_end_with_it() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGALRM)
    with limited(1 << 40):
        assert resource.getrlimit(resource.RLIMIT_DATA)[0] == 1 << 40
        assert signal.getsignal(signal.SIGALRM) != before[1]
    assert (resource.getrlimit(resource.RLIMIT_DATA), signal.getsignal(signal.SIGALRM)) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_in_another_thread_the_system_alone_limits() -> None:
    """Only the main thread of a process may set signals."""
    limits: list[int] = []

    def look() -> None:
        with limited(1 << 40):
            limits.append(resource.getrlimit(resource.RLIMIT_DATA)[0])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert limits == [1 << 40]
