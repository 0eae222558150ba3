"""A real job whose steps last longer while a profiler is on: what is told of it is told without the profiler."""

from pathlib import Path

import pytest
from capture.scripts import HOOKS, run

from diagnose.analysis import analyze
from diagnose.attribution.causes import DISTORTED

pytest.importorskip("torch")

SLOWED = (
    HOOKS
    + """
import time
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, i):
        time.sleep(0.025)
        return torch.ones(8)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters())
for batch in torch.utils.data.DataLoader(Samples(), batch_size=2):
    model(batch).sum().backward()
    time.sleep(0.32 if torch.autograd._profiler_enabled() else 0.004)  # as where a profiler makes operators dear
    optimizer.step()
"""
)


def test_a_loop_that_waits_for_data_is_told_though_the_profiler_hides_it(tmp_path: Path) -> None:
    done = run(SLOWED, tmp_path, {"sample_steps": 0})
    found = analyze(tmp_path / "out")
    shares = {entry.cause: entry.share for entry in found.ledger}

    assert done.returncode == 0
    assert found.steps.distortion is not None
    assert found.verdict.class_ == "data-bound"
    assert shares.keys() == {"data-wait", DISTORTED}  # of the profiled step the loop waits for data a seventh
    assert shares["data-wait"] > 0.5
    assert [f.rule for f in found.findings if f.class_ == "data"] == ["data-wait"]
    assert found.not_advised == ()
