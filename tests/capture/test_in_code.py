"""`with diagnose.probes.profile(...)`: a window in the script's own code."""

from pathlib import Path

import pytest
from capture.bundles import events
from capture.scripts import BARE, run, said
from needs import needs

needs("torch")

WITHIN = """
from diagnose.probes import profile
with profile(sys.argv[1] + "/out", %s) as steps:
    for number in range(1, %d):
        during(number)
        model(torch.randn(2, 8)).sum().backward()
        optimizer.step()
        steps.step()
print("trained")
"""


def recorded(folder: Path) -> set[str]:
    """The names of the steps in the trace."""
    return {str(event["name"]) for event in events(folder / "out") if str(event["name"]).startswith("ProfilerStep")}


@pytest.mark.parametrize(
    ("window", "steps", "expected"),
    [("", 20, 4), ("wait=2, warmup=1, active=2", 20, 2), ("warmup=0, active=4", 20, 4), ("active=5", 5, 4)],
)
def test_the_steps_asked_for_are_recorded(window: str, steps: int, expected: int, tmp_path: Path) -> None:
    """A loop that ends early leaves what it reached: the last range is of a step that never came."""
    done = run(BARE + WITHIN % (window, steps), tmp_path)

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert len(recorded(tmp_path)) == expected
    assert said(done) == []


@pytest.mark.parametrize("steps", [1, 2])
def test_a_loop_that_ends_before_a_step_was_recorded_says_so(steps: int, tmp_path: Path) -> None:
    done = run(BARE + WITHIN % ("", steps), tmp_path)

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert ["before step 2, the first recorded" in line for line in said(done)] == [True]
    assert not (tmp_path / "out" / "rank0.json.gz").exists()


def test_a_profiler_of_the_job_gets_its_way(tmp_path: Path) -> None:
    during = (
        "own = torch.profiler.profile()\n"
        "def during(number):\n"
        "    if number == 4:\n        own.start()\n"
        "    if number == 9:\n        own.stop()\n"
    )
    done = run(BARE + during + WITHIN % ("active=6", 20) + "print(len(own.events()) > 0)\n", tmp_path)

    assert (done.returncode, done.stdout) == (0, "trained\nTrue\n"), done.stderr
    assert len(recorded(tmp_path)) == 3


def test_a_folder_that_cannot_be_made_costs_the_capture(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    done = run(BARE + WITHIN % ("", 20), tmp_path)

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert len(said(done)) == 1


def test_a_profiler_in_another_thread_costs_the_capture(tmp_path: Path) -> None:
    during = (
        "import threading\n"
        "def beside():\n    with torch.profiler.profile():\n        torch.ones(3).add(1)\n"
        "def during(number):\n"
        "    if number == 4:\n"
        "        thread = threading.Thread(target=beside)\n        thread.start()\n        thread.join()\n"
    )
    done = run(BARE + during + WITHIN % ("active=6", 20), tmp_path)

    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert ["in another thread" in line for line in said(done)] == [True]
