"""A job whose steps last longer while a profiler is on: what is told of it is told without the profiler."""

import json
from pathlib import Path

import pytest
from capture.scripts import HOOKS, run

from diagnose.analysis import analyze
from diagnose.attribution.causes import DISTORTED

pytest.importorskip("torch")

SLOWED = (
    HOOKS
    + """
from diagnose.probes.current_session import session
from diagnose.probes.recording.clock import StepClock
from diagnose.probes.recording.range_times import times
passed_ns = 0  # by the clock of the job, which no busy machine holds up
def passes(ms):
    global passed_ns
    passed_ns += ms * 1_000_000
session().clock, times._now = StepClock(lambda: passed_ns), lambda: passed_ns
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, i):
        passes(25)
        return torch.ones(8)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters())
for batch in torch.utils.data.DataLoader(Samples(), batch_size=2):
    model(batch).sum().backward()
    passes(320 if torch.autograd._profiler_enabled() else 4)  # as where a profiler makes operators dear
    optimizer.step()
"""
)


def without_machine(record: Path) -> None:
    """Leave out what the machine did: the one that runs the tests may be too busy to judge a job."""
    kept = {name: value for name, value in json.loads(record.read_text()).items() if name != "machine_samples"}
    record.write_text(json.dumps(kept))


def test_a_loop_that_waits_for_data_is_told_though_the_profiler_hides_it(tmp_path: Path) -> None:
    done = run(SLOWED, tmp_path, {"sample_steps": 0})
    without_machine(tmp_path / "out/capture-rank0.json")
    found = analyze(tmp_path / "out")
    shares = {entry.cause: entry.share for entry in found.ledger}

    assert done.returncode == 0
    assert found.steps.distortion == pytest.approx((2 * 25 + 320) / (2 * 25 + 4))
    assert found.verdict.class_ == "data-bound"
    assert shares.keys() == {"data-wait", DISTORTED}  # of the profiled step the loop waits for data a seventh
    assert shares["data-wait"] == pytest.approx(50 / 54, abs=0.01)
    assert [f.rule for f in found.findings if f.class_ == "data"] == ["data-wait"]
    assert found.not_advised == ()
