"""Jobs whose input has a planted fault: it is measured where training begins, named, and nothing is trained."""

from pathlib import Path

import pytest
from data_pipeline.jobs import SIMPLE, TEXTS, report, stage
from noisy import noisy

from diagnose.commands.data.question import LoaderQuestion

pytestmark = pytest.mark.capture
LONG_S = 4.0  # so that there are samples of the stack on a busy host, too


@noisy
def test_a_slow_tokeniser_is_the_smallest_stage_cpu_bound_and_named(tmp_path: Path) -> None:
    slow = TEXTS.replace("for letter in word", "for letter in 20 * word")  # many letters, few ids to collate
    loop = "train(DataLoader(Texts(), batch_size=16, shuffle=True, collate_fn=padded))"
    said = report(slow + loop, tmp_path, seconds=LONG_S)

    assert said.smallest == "dataset"
    assert stage(said, "dataset").work == "tokenise"
    assert stage(said, "dataset").bound == "cpu"
    assert stage(said, "dataset").functions[0].function == "tokenise"
    assert said.lock in ("held", "unknown")  # unknown where the host has no second core to try it


@noisy
def test_a_dataset_that_sleeps_waits_and_its_sleep_is_named(tmp_path: Path) -> None:
    script = """
class Slow(Dataset):
    def __len__(self):
        return 400
    def __getitem__(self, index):
        time.sleep(0.05)  # far longer than a busy machine keeps it from going on
        return torch.ones(8)
train(DataLoader(Slow(), batch_size=8))
"""
    said = report(SIMPLE + script, tmp_path, seconds=LONG_S)

    assert (said.smallest, stage(said, "dataset").bound) == ("dataset", "io")
    assert stage(said, "dataset").work == "sleep"
    assert said.lock == "unknown"


@noisy
def test_a_heavy_collate_function_is_the_smallest_stage(tmp_path: Path) -> None:
    script = """
def heavy(samples):
    total = 0
    for number in range(20_000 * len(samples)):
        total += number
    return torch.stack(samples)
train(DataLoader(torch.ones(4000, 8), batch_size=8, collate_fn=heavy))
"""
    said = report(SIMPLE + script, tmp_path, seconds=LONG_S)

    assert said.smallest == "collate"
    assert stage(said, "collate").functions[0].function == "heavy"
    assert stage(said, "collate").samples_per_s < 0.1 * stage(said, "dataset").samples_per_s


def test_files_are_read_warm_and_cold_or_it_is_said_why_not(tmp_path: Path) -> None:
    script = """
import os
folder = sys.argv[1]
for number in range(40):
    with open(f"{folder}/{number}.bin", "wb") as file:
        file.write(os.urandom(200_000))
        os.fsync(file.fileno())
class Files(Dataset):
    def __len__(self):
        return 40
    def __getitem__(self, index):
        with open(f"{folder}/{index}.bin", "rb") as file:
            return torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)[:8].float()
train(DataLoader(Files(), batch_size=4))
"""
    said = report(SIMPLE + script, tmp_path)
    warm, cold = stage(said, "storage, warm"), stage(said, "storage, cold")

    assert warm.bytes_per_s == pytest.approx(200_000 * warm.samples_per_s, rel=0.01)
    assert cold.because or cold.bytes_per_s == pytest.approx(200_000 * cold.samples_per_s, rel=0.01)


@noisy
def test_the_workers_of_the_job_and_one_are_measured_and_a_step_needs_so_many(tmp_path: Path) -> None:
    script = """
class Slow(Dataset):
    def __len__(self):
        return 4000
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.ones(8)
train(DataLoader(Slow(), batch_size=2, num_workers=2))
"""
    said = report(SIMPLE + script, tmp_path, LoaderQuestion(step_s=0.005))

    assert [rate.workers for rate in said.loader] == [0, 1, 2]
    assert all(rate.samples_per_s for rate in said.loader)
    assert said.workers.least is not None
    assert said.workers.least >= 4  # a batch of two sleeps for 20 ms
    assert said.workers.most >= said.workers.least


def test_without_a_gpu_pinning_and_copying_are_unknown(tmp_path: Path) -> None:
    said = report(SIMPLE + "train(DataLoader(torch.ones(4000, 8), batch_size=8))", tmp_path, seconds=1)

    for name in ("pinning", "copy to the device"):
        assert stage(said, name).samples_per_s is None
        assert "CUDA" in stage(said, name).because
        assert "GPU" in stage(said, name).capture
