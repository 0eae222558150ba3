"""Two GPUs in one process."""

from pathlib import Path

import pytest
from needs import needs
from on_gpu.jobs import diagnosis, ran, record

needs("torch")
pytestmark = [pytest.mark.gpu, pytest.mark.two_gpus]

PARTED = """
first = torch.nn.Linear(512, 512, device="cuda:0")
second = torch.nn.Linear(512, 512, device="cuda:1")
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=1e-3)
x = torch.randn(64, 512, device="cuda:0")
for _ in range(60):
    second(first(x).to("cuda:1")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained")
"""
OTHER_DEVICE = """
torch.cuda.set_device(1)
model.to("cuda:1"), optimizer.state.clear()
x = x.to("cuda:1")
loop(60)
print("trained")
"""


def test_a_model_on_two_gpus_is_told_by_the_busier_one(tmp_path: Path) -> None:
    done = ran(tmp_path, PARTED)

    assert (done.returncode, "trained" in done.stdout) == (0, True), done.stderr
    assert diagnosis(tmp_path)["steps"]["device_time_ns"] > 0


def test_a_job_on_the_second_gpu_has_its_name_and_its_clock(tmp_path: Path) -> None:
    done = ran(tmp_path, OTHER_DEVICE, "--no-report")

    assert (done.returncode, "trained" in done.stdout) == (0, True), done.stderr
    assert record(tmp_path)["device"]["index"] == 1
