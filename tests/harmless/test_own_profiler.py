"""A job that profiles itself gets the trace it would get without us."""

import ast
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from capture.bundles import marker
from capture.scripts import BARE, TRAINER, run, said
from needs import needs

from diagnose import analyze
from diagnose.probes.recording.other_profilers import nsight_records

needs("torch")

SCHEDULED = (
    "own = torch.profiler.profile(schedule=torch.profiler.schedule(wait=%(wait)d, warmup=1, active=4, repeat=1),\n"
    "    on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1] + '/own.json'), record_shapes=True)\n"
    "def during(number):\n"
    "    if number > 1:\n        own.step()\n"
)
ENTERED = "own.start()\nloop(40)\nown.stop()\n"


def names(folder: Path) -> Counter[tuple[Any, Any]]:
    """How often each operator and range stands in the job's own trace."""
    events = json.loads((folder / "own.json").read_text())["traceEvents"]
    return Counter((e["cat"], e["name"]) for e in events if e.get("cat") in ("cpu_op", "user_annotation"))


@pytest.mark.parametrize("wait", [1, 4, 12, 20])
def test_the_jobs_trace_holds_what_it_holds_without_us(wait: int, tmp_path: Path) -> None:
    """The job's window lies before ours, across it, and behind it."""
    script = BARE + SCHEDULED % {"wait": wait} + ENTERED
    expected = run(script, tmp_path / "plain")
    done = run(script, tmp_path / "probed", {})

    assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout) == (0, ""), done.stderr
    assert names(tmp_path / "probed") == names(tmp_path / "plain")


def test_a_profiler_on_from_the_beginning_is_waited_for(tmp_path: Path) -> None:
    """Once it is over, the window opens; until then not even a time is taken."""
    during = (
        "own = torch.profiler.profile()\nown.start()\n"
        "def during(number):\n"
        "    if number == 15:\n        own.stop()\n        own.export_chrome_trace(sys.argv[1] + '/own.json')\n"
    )
    run(BARE + during + "loop(60)\n", tmp_path / "plain")
    done = run(BARE + during + "loop(60)\n", tmp_path / "probed", {})

    assert done.returncode == 0, done.stderr
    assert names(tmp_path / "probed") == names(tmp_path / "plain")
    assert marker(tmp_path / "probed" / "out")["trace"] == "rank0.json.gz"
    known = json.loads((tmp_path / "probed" / "out" / "capture-rank0.json").read_text())
    assert known["steps"]["first_active_step"] > 16


def test_a_window_without_a_whole_step_gives_way_and_opens_again_afterwards(tmp_path: Path) -> None:
    """The job's profiler is on from step 5 to 9: first in our warm-up."""
    during = (
        "own = torch.profiler.profile()\n"
        "def during(number):\n"
        "    if number == 5:\n        own.start()\n"
        "    if number == 9:\n        own.stop()\n        own.export_chrome_trace(sys.argv[1] + '/own.json')\n"
    )
    run(BARE + during + "loop(40)\n", tmp_path / "plain")
    done = run(BARE + during + "loop(40)\n", tmp_path / "probed", {"at_step": 6})

    assert done.returncode == 0, done.stderr
    assert "waits for its end" in said(done)[0]
    assert names(tmp_path / "probed") == names(tmp_path / "plain")
    steps = json.loads((tmp_path / "probed" / "out" / "capture-rank0.json").read_text())["steps"]
    assert (steps["first_active_step"], steps["passed"], len(steps["active_ns"])) == (13, 5, 3)
    waited = [ns is not None for ns in steps["waiting_ns"]]
    assert waited == [False, *[True] * 2, *[False] * 6]  # nobody saw the first begin


def test_what_the_jobs_profiler_marks_while_it_waits_is_not_counted(tmp_path: Path) -> None:
    during = SCHEDULED % {"wait": 60} + ENTERED
    done = run(BARE + during, tmp_path / "probed", {"at_step": 12})

    assert done.returncode == 0, done.stderr
    diagnosis = analyze(tmp_path / "probed" / "out").diagnosis
    assert (diagnosis.steps.numbers, diagnosis.steps.count) == ((13, 14), 2)
    assert "second-profiler" in {finding.rule for finding in diagnosis.findings}


def test_nothing_is_looked_up_within_a_step_that_the_job_profiles(tmp_path: Path) -> None:
    """The whole run is profiled: going through all objects waits for the end."""
    watched = (
        "import atexit, gc\n"
        "looked, through = [], gc.get_objects\n"
        "def get_objects(*given):\n"
        "    looked.append(torch.autograd._profiler_enabled())\n    return through(*given)\n"
        "gc.get_objects = get_objects\n"
        "with torch.profiler.profile() as own:\n    loop(40)\n"
        "own.export_chrome_trace(sys.argv[1] + '/own.json')\n"
        "print(looked)\n"
    )
    run(BARE + watched, tmp_path / "plain")
    done = run(BARE + watched, tmp_path / "probed", {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr
    assert len(said(done)) == 2
    assert all("another profiler" in line for line in said(done))
    assert "another profiler" in marker(tmp_path / "probed" / "out")["error"]
    assert names(tmp_path / "probed") == names(tmp_path / "plain")


@pytest.mark.slow
def test_a_search_over_hyperparameters_profiles_its_trials_as_always(tmp_path: Path) -> None:
    needs("transformers")
    search = (
        "from transformers import TrainerCallback\n"
        "class Profiled(TrainerCallback):\n"
        "    def on_step_end(self, *args, **kwargs):\n        own.step()\n"
        "for trial in range(6):\n"
        "    made = trainer(max_steps=12, save_steps=1000, gradient_accumulation_steps=1)\n"
        "    if trial == 3:\n"
        "        own = torch.profiler.profile(schedule=torch.profiler.schedule(wait=2, warmup=1, active=8),\n"
        "            on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[1] + '/own.json'))\n"
        "        made.add_callback(Profiled())\n        own.start()\n"
        "    made.train()\n"
        "    if trial == 3:\n        own.stop()\n"
        "finish()\n"
    )
    expected = run(TRAINER + search, tmp_path / "plain")
    done = run(TRAINER + search, tmp_path / "probed", {})

    assert (done.returncode, expected.returncode) == (0, 0), done.stderr
    assert names(tmp_path / "probed") == names(tmp_path / "plain")
    import torch

    ours, theirs = (torch.load(tmp_path / kind / "final.pt") for kind in ("probed", "plain"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    ("session", "uses_gpu", "records"), [("7", True, True), ("7", False, False), ("", True, False)]
)
def test_nsight_keeps_the_gpu_to_itself(
    session: str, uses_gpu: bool, records: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: uses_gpu)

    assert nsight_records({"NSYS_PROFILING_SESSION_ID": session}) is records


@pytest.mark.parametrize("at", [5, 7, 8])
def test_a_profiler_in_another_thread_costs_the_window_and_not_the_job(at: int, tmp_path: Path) -> None:
    """In the warm-up, in the window, and twice in it."""
    during = (
        "import threading\n"
        "def beside():\n"
        "    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:\n"
        "        torch.randn(8, 8) @ torch.randn(8, 8)\n"
        "    print(any(event.key == 'aten::matmul' for event in own.key_averages()), flush=True)\n"
        "def during(number):\n"
        f"    if number in ({at}, 8):\n"
        "        thread = threading.Thread(target=beside)\n        thread.start()\n        thread.join()\n"
    )
    expected = run(BARE + during + "loop()\nfinish()\nprint('trained')\n", tmp_path / "plain")
    done = run(BARE + during + "loop()\nfinish()\nprint('trained')\n", tmp_path / "probed", {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, expected.stdout), done.stderr
    assert marker(tmp_path / "probed" / "out")["trace"] is None
    assert "in another thread" in marker(tmp_path / "probed" / "out")["error"]


def test_a_dispatch_mode_sees_the_operators_of_the_job_alone(tmp_path: Path) -> None:
    needs("transformers")
    counted = (
        "from torch.utils._python_dispatch import TorchDispatchMode\n"
        "seen = []\n"
        "class Counting(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, function, types, args=(), kwargs=None):\n"
        "        seen.append(str(function))\n        return function(*args, **(kwargs or {}))\n"
        "with Counting():\n    trainer(logging_strategy='no', save_strategy='no').train()\n"
        "from collections import Counter\nprint(sorted(Counter(seen).items()))\n"
    )
    expected = run(TRAINER + counted, tmp_path / "plain")
    done = run(TRAINER + counted, tmp_path / "probed", {})

    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout.splitlines()[-1]) == ast.literal_eval(expected.stdout.splitlines()[-1])
