"""Sampling changes nothing of a job: not its results, its errors, its children, its own profilers, and it tells no more
than names."""

import json
from pathlib import Path

import pytest
from capture.bundles import facts, marker
from capture.scripts import BARE, run, said
from needs import needs

needs("torch")
pytestmark = pytest.mark.capture

ON = """
from diagnose.probes.side_thread import SideThread
from diagnose.probes.stacks import enough
enough.ENOUGH = 10**9  # a machine that stands still for a while ends no sampling
stop = SideThread.stop
SideThread.stop = lambda thread, within_s: stop(thread, within_s=300)
"""
SLOW = (
    ON
    + """
import time
def during(number):
    secret = "hunter2"
    if number > 20:
        time.sleep(0.05)
"""
)


def test_results_are_the_same_to_the_bit(tmp_path: Path) -> None:
    import torch

    script = BARE + SLOW + "loop(40)\nfinish()\n"
    done = [run(script, tmp_path / name, {"sample_steps": steps}) for name, steps in (("with", 10), ("without", 0))]

    assert [each.returncode for each in done] == [0, 0], done[0].stderr
    assert facts(tmp_path / "with" / "out")["stack_samples"]["steps"] == 10
    assert facts(tmp_path / "without" / "out")["stack_samples"] == {"why_none": "sampling is off"}
    ours, theirs = (torch.load(tmp_path / name / "final.pt") for name in ("with", "without"))
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_record_holds_names_and_lines_of_the_users_code_and_nothing_else(tmp_path: Path) -> None:
    done = run(BARE + SLOW + "loop(40)\n", tmp_path, {})

    assert done.returncode == 0, done.stderr
    assert "hunter2" not in json.dumps(facts(tmp_path / "out"))
    stacks = facts(tmp_path / "out")["stack_samples"]["stacks"]
    sleeping = next(stack for stack in stacks if stack["calls"] == "sleep")
    assert [frame[2] for frame in sleeping["frames"][-3:]] == ["<module>", "loop", "during"]
    assert sleeping["doing"] == "step"


def test_a_loop_that_ends_while_it_is_sampled_keeps_its_whole_steps(tmp_path: Path) -> None:
    done = run(BARE + SLOW + "loop(30)\ntime.sleep(0.3)\n", tmp_path, {"at_step": 6, "steps": 2, "control": 1})

    assert (done.returncode, said(done)) == (0, [])
    assert marker(tmp_path / "out")["error"] is None
    found = facts(tmp_path / "out")["stack_samples"]
    assert (found["first_step"], found["steps"]) == (10, 21)
    assert all(stack["frames"][-1][2] != "<module>" for stack in found["stacks"] if stack["calls"] == "sleep")


ENDS = {
    "raises": ("raise ValueError('of the job')", 1),
    "exits": ("sys.exit(7)", 7),
    "leaves at once": ("os._exit(9)", 9),
    "dies of a signal": ("os.kill(os.getpid(), 15)", -15),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_job_that_ends_while_it_is_sampled_ends_as_always(end: str, tmp_path: Path) -> None:
    how, code = ENDS[end]
    during = f"import os\ndef during(number):\n    if number == 25:\n        {how}\n"
    expected = run(BARE + during + "loop(40)\n", tmp_path / "plain")
    done = run(BARE + during + "loop(40)\n", tmp_path / "sampled", {"at_step": 6})

    assert done.returncode == expected.returncode == code
    assert said(done) == []


def test_a_child_that_is_forked_while_the_job_is_sampled_ends_as_always(tmp_path: Path) -> None:
    during = (
        "import os, threading\n"
        "def during(number):\n"
        "    if number == 25:\n"
        "        pid = os.fork()\n"
        "        if not pid:\n"
        "            with torch.autograd.profiler.emit_nvtx(enabled=False):\n                pass\n"
        "            print(len(sys._current_frames()), flush=True)\n            sys.exit(5)\n"
        "        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)\n"
    )
    done = run(BARE + during + "loop(40)\n", tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "1\n5\n"), done.stderr
    assert "stacks" in facts(tmp_path / "out")["stack_samples"] or marker(tmp_path / "out")["trace"]


def test_a_job_with_a_profile_function_of_its_own_keeps_it(tmp_path: Path) -> None:
    """It sees the training thread alone, and no frame of ours."""
    own = (
        "import sys, threading\nseen = set()\n"
        "def profile(frame, event, argument):\n"
        "    seen.add((threading.get_ident(), frame.f_code.co_name == '_look'))\n"
        "def during(number):\n"
        "    if number == 20:\n        sys.setprofile(profile)\n        threading.setprofile(profile)\n"
        "    if number > 20:\n        sum(range(10**6))\n"
    )
    ending = "loop(40)\nprint(sys.getprofile() is profile, seen == {(threading.get_ident(), False)})\n"
    done = run(BARE + own + ending, tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr
    assert facts(tmp_path / "out")["stack_samples"]["samples"] > 0


def test_a_profiler_of_the_job_is_not_sampled_beside(tmp_path: Path) -> None:
    """The thread is gone before the profiler begins, and comes back after it."""
    during = (
        "own = torch.profiler.profile(with_stack=True)\n"
        "threads = []\n"
        "def during(number):\n"
        "    if number == 20:\n"
        "        own.start()\n        threads.append(len(sys._current_frames()))\n"
        "    if number == 24:\n        own.stop()\n"
        "    if number > 15:\n        torch.randn(10**6).sort()\n"
    )
    done = run(BARE + ON + during + "loop(40)\nprint(threads)\n", tmp_path, {"at_step": 6})

    assert (done.returncode, done.stdout) == (0, "[1]\n"), done.stderr
    found = facts(tmp_path / "out")["stack_samples"]
    assert found["steps"] < 40 - found["first_step"] - 4
    assert found["samples"] > 0


def test_a_long_evaluation_ends_the_sampling(tmp_path: Path) -> None:
    evaluated = (
        "loop(18)\nprint(os.listdir(sys.argv[1] + '/out'))\n"
        "for batch in loader(200):\n    pass\nprint(sorted(os.listdir(sys.argv[1] + '/out')))\n"
    )
    done = run("import os\n" + BARE + ON + evaluated, tmp_path, {"at_step": 6})

    assert done.returncode == 0, done.stderr
    before, after = done.stdout.splitlines()
    assert "rank0.done" not in before
    assert "rank0.done" in after
    assert not (tmp_path / "out-2").exists()
