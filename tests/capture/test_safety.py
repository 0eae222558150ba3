"""Whatever happens to the capture, training ends as it would have, and what was recorded is kept."""

import gzip
import os
import signal
from pathlib import Path

import pytest
from capture.bundles import marker
from capture.scripts import BARE, TRAINER, run, said
from needs import needs

torch = pytest.importorskip("torch")

FINAL = {"bare": BARE + "loop()\nfinish()\n", "trainer": TRAINER + "trainer().train()\nfinish()\n"}
PATCH = {
    "the profiler cannot be made": "torch.profiler.profile = broken",
    "the profiler cannot start": "torch.profiler.profile.start = broken",
    "a profiled step fails": "torch.profiler.profile.step = broken",
    "the profiler cannot stop": "torch.profiler.profile.stop = broken",
    "the export fails": "torch.profiler.profile.export_chrome_trace = broken",
    "the export is cut": "torch.profiler.profile.export_chrome_trace = cut",
    "the disk is full": "import gzip; gzip.open = full",
    "the facts fail": "from diagnose.probes.facts import record; record.facts = broken",
    "the marker fails": "from diagnose.probes.bundle.rank_files import RankFiles; RankFiles.finish = broken",
    "the bundle fails": "from diagnose.probes.bundle.rank_files import RankFiles; RankFiles.__init__ = broken",
    "the clock fails": "from diagnose.probes.recording.clock import StepClock; StepClock.step_ended = broken",
    "the ranges fail": "from diagnose.probes.recording.ranges import Emitter; Emitter.__init__ = broken",
    "a batch is unreadable": "from diagnose.probes.facts.job_objects import JobObjects; JobObjects.note_batch = broken",
    "a loader cannot be measured": "from diagnose.probes.facts.loader_work import Loaders; Loaders.fetching = broken",
    "padding cannot be counted": "from diagnose.probes.facts.padding import PaddingSums; PaddingSums.note = broken",
    "the stack cannot be read": "from diagnose.probes.stacks.sampling import StackSampler; StackSampler._look = broken",
    "stacks cannot be folded": "from diagnose.probes.stacks import folding; folding.stack_samples = broken",
    "sampling cannot begin": "from diagnose.probes.stacks.sampling import StackSampler; StackSampler.start = broken",
    "the window fails": "from diagnose.probes.window import Window; Window.step_ended = broken",
}
FAULTS = """
def broken(*args, **kwargs):
    raise RuntimeError("injected")
def full(*args, **kwargs):
    raise OSError(28, "No space left on device")
def cut(self, path, *args, **kwargs):
    open(path, "w").write('{"traceEvents": [{"na')
"""


@pytest.fixture(scope="module", params=sorted(FINAL))
def unprobed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A script and the parameters it ends with when nothing is captured."""
    if request.param == "trainer":
        needs("transformers")
    folder = tmp_path_factory.mktemp(request.param)
    done = run(FINAL[request.param], folder)
    assert done.returncode == 0, done.stderr
    assert not (folder / "out").exists()
    return FINAL[request.param], folder / "final.pt"


def test_the_final_parameters_are_the_same_bit_for_bit(unprobed: tuple[str, Path], tmp_path: Path) -> None:
    script, expected = unprobed
    done = run(script, tmp_path, {})

    assert done.returncode == 0, done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"
    assert same(tmp_path / "final.pt", expected)


def same(left: Path, right: Path) -> bool:
    ours, theirs = torch.load(left), torch.load(right)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("fault", PATCH)
def test_a_fault_in_the_probe_costs_the_capture_and_not_the_job(fault: str, tmp_path: Path) -> None:
    script = BARE + FAULTS + PATCH[fault] + "\nloop()\nprint('trained')\n"
    done = run(script, tmp_path, {"skip": 4})

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert "Traceback" not in done.stderr
    unread = ("a batch is unreadable", "a loader cannot be measured", "padding cannot be counted")
    quiet = fault in ("the ranges fail", "the stack cannot be read", "stacks cannot be folded", *unread)
    assert len(said(done)) <= 2
    assert bool(said(done)) or quiet
    left = {path.name for path in (tmp_path / "out").iterdir()} if (tmp_path / "out").exists() else set()
    assert not [name for name in left if name.endswith(".part")]
    for trace in left & {"rank0.json.gz"}:
        assert gzip.decompress((tmp_path / "out" / trace).read_bytes()).rstrip().endswith(b"}")


def test_a_read_only_folder_costs_the_capture_and_not_the_job(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where the folder should be")
    done = run(BARE + "loop()\nprint('trained')\n", tmp_path, {})

    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert len(said(done)) == 1


@pytest.mark.parametrize("text", ["not json", "[]", '{"out": 3}', '{"out": "x", "steps": "many"}'])
def test_broken_settings_cost_the_capture_and_not_the_job(text: str, tmp_path: Path) -> None:
    script = f"import os\nos.environ['PYTHON_DIAGNOSE'] = {text!r}\n" + BARE + "loop()\nprint('trained')\n"
    done = run(script, tmp_path)

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert len(said(done)) == 1


def test_a_profiler_that_already_runs_is_left_alone(tmp_path: Path) -> None:
    script = BARE + "with torch.profiler.profile() as own:\n    loop()\nprint(len(own.events()) > 0)\n"
    done = run(script, tmp_path, {})

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert "another profiler" in said(done)[0]


def test_a_profiler_that_the_job_starts_in_the_window_gets_its_way(tmp_path: Path) -> None:
    during = (
        "own = torch.profiler.profile()\n"
        "def during(number):\n"
        "    if number == 7:\n        own.start()\n"
        "    if number == 12:\n        own.stop()\n"
    )
    done = run(BARE + during + "loop()\nprint(len(own.events()) > 0)\n", tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"


@pytest.mark.parametrize("kind", ["bare", "trainer"])
def test_an_exception_in_the_window_is_the_jobs_own_and_the_trace_is_kept(kind: str, tmp_path: Path) -> None:
    if kind == "trainer":
        needs("transformers")
    during = "def during(number):\n    if number == 7:\n        raise ValueError('of the job')\n"
    script = {"bare": BARE + during + "loop()\n", "trainer": TRAINER + during + "trainer().train()\n"}[kind]
    done = run(script, tmp_path, {"at_step": 6})

    assert done.returncode == 1
    assert "\nValueError: of the job\n" in done.stderr
    assert done.stderr.count("Traceback") == 1
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"


@pytest.mark.parametrize(("number", "kept"), [(signal.SIGTERM, False), (signal.SIGINT, True)])
def test_a_signal_in_the_window_ends_the_job_as_before(number: int, kept: bool, tmp_path: Path) -> None:
    """SIGTERM's default action leaves no time for a trace; an interrupt is an exception, after which there is some."""
    during = f"import os\ndef during(number):\n    if number == 7:\n        os.kill(os.getpid(), {int(number)})\n"
    script = BARE + during + "loop()\nprint('not reached')\n"
    expected = run(script, tmp_path / "unprobed")
    done = run(script, tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (expected.returncode, "")
    assert done.returncode == -number
    assert (tmp_path / "out" / "rank0.json.gz").exists() is kept


def test_the_jobs_own_signal_handler_is_called_once_and_training_goes_on(tmp_path: Path) -> None:
    during = (
        "import os, signal\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('handled', flush=True))\n"
        "def during(number):\n    if number in (7, 25):\n        os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    done = run(BARE + during + "loop()\nprint('trained')\n", tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "handled\nhandled\ntrained\n"), done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"


def test_a_child_forked_in_the_window_as_multiprocessing_does_writes_nothing(tmp_path: Path) -> None:
    during = (
        "import os\n"
        "def during(number):\n"
        "    if number == 7 and os.fork() == 0:\n        os._exit(0)\n"
        "    if number == 8:\n        os.wait()\n"
    )
    done = run(BARE + during + "loop()\nprint('trained')\n", tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert said(done) == []
    assert os.listdir(tmp_path / "out") != []
    assert not (tmp_path / "out-2").exists()
