"""A job that captures CUDA graphs keeps them, whatever the probe does at that moment."""

from pathlib import Path

import pytest
from needs import needs
from on_gpu.jobs import ran, record

needs("torch")
pytestmark = pytest.mark.gpu

CAPTURED = """
side = torch.cuda.Stream()
for number in range(1, 41):
    if number == {at}:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            step()
        graph.replay()
        torch.cuda.synchronize()
    else:
        with torch.cuda.stream(side):
            step()
print("trained", torch.isfinite(model.weight).all().item())
"""
REPLAYED = """
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    loop(4)
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
for _ in range(200):
    graph.replay()
{then}
torch.cuda.synchronize()
print("trained", torch.isfinite(model.weight).all().item())
"""


@pytest.mark.parametrize("at", [4, 5, 7, 8, 10, 11, 12, 13])
def test_a_graph_that_the_job_captures_in_any_phase_of_the_window_is_its_own(at: int, tmp_path: Path) -> None:
    done = ran(tmp_path, CAPTURED.format(at=at), "--no-report", "--at-step", "8")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained True"), done.stderr
    assert record(tmp_path)["steps"]["clock"] == "device"


def test_a_job_that_only_replays_its_graph_is_told_that_no_step_was_seen(tmp_path: Path) -> None:
    done = ran(tmp_path, REPLAYED.format(then=""), "--no-report")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained True"), done.stderr
    assert "before a step was recorded" in done.stderr


def test_a_job_goes_on_without_its_graph(tmp_path: Path) -> None:
    done = ran(tmp_path, REPLAYED.format(then="loop(60)"), "--no-report")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained True"), done.stderr
    assert record(tmp_path)["error"] is None


def test_an_armed_run_leaves_a_graph_alone(tmp_path: Path) -> None:
    done = ran(tmp_path, CAPTURED.format(at=20), "--no-report", "--arm", "--every", "10")

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "trained True"), done.stderr
