"""What the job does between two steps may be long: the profiler does not stay on for all of it."""

from pathlib import Path

import pytest
from capture.bundles import events, marker
from capture.scripts import BARE, run
from needs import needs

needs("torch")

EVALUATES = (
    "def during(number):\n"
    "    if number == 8:\n"
    "        with torch.no_grad():\n"
    "            for row, (batch,) in enumerate(loader(%d)):\n"
    "                model(batch)\n"
    "        print(torch.autograd._profiler_enabled(), flush=True)\n"
)


@pytest.mark.parametrize(("batches", "goes_on"), [(40, True), (500, False)])
def test_a_long_evaluation_closes_the_window(batches: int, goes_on: bool, tmp_path: Path) -> None:
    done = run(BARE + EVALUATES % batches + "loop()\nprint('trained')\n", tmp_path, {"at_step": 6, "steps": 4})

    assert (done.returncode, done.stdout) == (0, f"{goes_on}\ntrained\n"), done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"
    steps = {event["name"] for event in events(tmp_path / "out") if str(event["name"]).startswith("ProfilerStep")}
    assert len(steps) == (4 if goes_on else 3)


def test_a_step_of_many_batches_is_no_evaluation(tmp_path: Path) -> None:
    accumulates = (
        "rows = iter(loader(100 * 12))\n"
        "for number in range(1, 13):\n"
        "    for _ in range(100):\n        model(next(rows)[0]).square().mean().backward()\n"
        "    optimizer.step()\n"
    )
    done = run(BARE + accumulates, tmp_path, {"at_step": 2, "steps": 3, "warmup": 1})

    assert (done.returncode, done.stderr.count("diagnose:")) == (0, 0), done.stderr
    steps = {event["name"] for event in events(tmp_path / "out") if str(event["name"]).startswith("ProfilerStep")}
    assert len(steps) == 3
