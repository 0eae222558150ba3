"""`diagnose run --memory`: what is asked of torch when CUDA begins, against a stand-in for CUDA."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from needs import needs

from diagnose.capture.bundle import Bundle
from diagnose.probes.config import Config


class Cuda:
    """What the recorder asks of torch, and the files that snapshots are written to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import torch

        self.histories: list[dict[str, Any]] = []
        self.observers: list[Callable[..., None]] = []
        self.queued: list[Callable[[], None]] = []
        monkeypatch.setattr(torch.cuda, "_lazy_call", self.queued.append)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", lambda **how: self.histories.append(how))
        monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", lambda file: Path(file).write_bytes(b"snapshot"))
        attach = "_cuda_attach_out_of_memory_observer"
        monkeypatch.setattr(torch._C, attach, self.observers.append, raising=False)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    needs("torch")
    return Cuda(monkeypatch)


def armed(monkeypatch: pytest.MonkeyPatch, **config: Any) -> None:
    from diagnose.probes.dumps import memory_history

    monkeypatch.setenv("PYTHON_DIAGNOSE", Config(**config).to_json())
    memory_history.arm()


def test_nothing_is_asked_of_cuda_before_the_job_asks(
    cuda: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    armed(monkeypatch, out=str(tmp_path), token="t", memory=True)
    before = (len(cuda.histories), len(cuda.observers))
    cuda.queued[0]()

    assert before == (0, 0)
    assert cuda.histories == [{"max_entries": 100_000, "stacks": "python"}]
    assert len(cuda.observers) == 1


def test_without_the_option_no_history_is_recorded(cuda: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    armed(monkeypatch, out=str(tmp_path), token="t")
    cuda.queued[0]()

    assert (cuda.histories, len(cuda.observers)) == ([], 1)


def test_in_code_nothing_is_armed(cuda: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    armed(monkeypatch, out=str(tmp_path), memory=True)

    assert cuda.queued == []


def test_a_snapshot_comes_after_the_third_step_and_one_at_the_first_oom(
    cuda: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from diagnose.probes.dumps.memory_history import SnapshotRecorder

    recorder = SnapshotRecorder(Config(str(tmp_path), memory=True, token="t"))
    written = []
    for _ in range(4):
        recorder.after_step()
        written.append(os.listdir(tmp_path))
    recorder.at_oom(0, 0, 0, 0)
    (tmp_path / "memory-rank0-oom.pickle").unlink()
    recorder.at_oom(0, 0, 0, 0)

    assert written == [[], [], ["memory-rank0.pickle"], ["memory-rank0.pickle"]]
    assert os.listdir(tmp_path) == ["memory-rank0.pickle"]  # one snapshot of an OOM, not one for each


def test_a_snapshot_that_cannot_be_written_leaves_nothing(
    cuda: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import torch

    from diagnose.probes.dumps.memory_history import SnapshotRecorder

    def fills_the_disk(file: str) -> None:
        Path(file).write_bytes(b"snap")
        raise OSError("no space")

    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", fills_the_disk)
    SnapshotRecorder(Config(str(tmp_path), memory=True, token="t")).at_oom()

    assert os.listdir(tmp_path) == []
    assert "diagnose: no memory snapshot: OSError: no space" in capfd.readouterr().err


def test_what_a_rank_that_was_killed_left_of_its_snapshots_is_removed_in_the_end(tmp_path: Path) -> None:
    bundle = Bundle(tmp_path / "o", {})
    names = (".memory-rank0.pickle.7.part", ".memory-rank12-oom.pickle.7.part", ".memory-of-the-job.part")
    for name in names:
        (bundle.folder / name).touch()
    bundle.tidy()

    assert os.listdir(bundle.folder) == [names[2]]


def test_an_oom_after_the_window_leaves_none_without_the_option(cuda: Cuda, tmp_path: Path) -> None:
    from diagnose.probes.dumps.memory_history import SnapshotRecorder

    SnapshotRecorder(Config(str(tmp_path), token="t")).at_oom(0, 0, 0, 0)  # no session is open

    assert os.listdir(tmp_path) == []


def test_a_version_of_torch_without_the_observer_costs_the_job_nothing(
    cuda: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import torch

    monkeypatch.delattr(torch._C, "_cuda_attach_out_of_memory_observer")
    armed(monkeypatch, out=str(tmp_path), token="t")

    cuda.queued[0]()

    assert "diagnose: no memory snapshots" in capfd.readouterr().err


PLAIN_LOOP = """
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(40):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_on_the_cpu_runs_with_memory_as_without_and_one_line_says_that_nothing_is_recorded(
    code: int, tmp_path: Path
) -> None:
    """Through the command line and with torch's own hooks: nothing stands in for anything."""
    needs("torch")
    (tmp_path / "loop.py").write_text(f"{PLAIN_LOOP}raise SystemExit({code})\n")
    command = [sys.executable, "-m", "diagnose", "run", "--memory", "--no-report", "--out", "o", "--", "loop.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (code, "trained\n"), done.stderr
    assert done.stderr.count("diagnose: --memory has nothing to record: the job did not use CUDA") == 1
    assert list((tmp_path / "o").glob("memory-*")) == []


def test_a_job_that_makes_too_few_steps_on_a_gpu_is_told_why_there_is_no_snapshot(
    cuda: Cuda, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from diagnose.probes.dumps.memory_history import SnapshotRecorder

    recorder = SnapshotRecorder(Config(str(tmp_path), memory=True, token="t"))
    recorder.after_step()
    recorder.at_exit()

    assert "it is taken after 3 optimizer steps, and the job made 1" in capfd.readouterr().err


def test_no_snapshot_is_taken_while_a_graph_is_captured(
    cuda: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import torch

    from diagnose.probes.dumps.memory_history import SnapshotRecorder

    recorder = SnapshotRecorder(Config(str(tmp_path), memory=True, token="t"))
    written = []
    for capturing in (False, False, True, True, False):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda now=capturing: now)
        recorder.after_step()
        written.append(len(os.listdir(tmp_path)))

    assert written == [0, 0, 0, 0, 1]
