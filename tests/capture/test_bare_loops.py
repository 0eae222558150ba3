"""Loops without a Trainer: which optimizer ends a step, and real loops captured through torch's own hooks."""

from pathlib import Path

import pytest
from capture.bundles import facts, marker, ranges
from capture.scripts import BARE, run, said
from needs import needs

from diagnose.probes.hooks.torch_hooks import Cycle

needs("torch")


def steps_in(sequence: str) -> str:
    """`sequence` with a bar after each optimizer step that ends a training step."""
    cycle = Cycle()
    return "".join(name + ("|" if cycle.closed_by(ord(name)) else "") for name in sequence)


@pytest.mark.parametrize(
    ("sequence", "settles_to"),
    [
        ("AAAAAAAA", "A|A|A|A|"),
        ("ABABABAB", "AB|AB|"),
        ("ABCABCABCABC", "ABC|ABC|"),
        ("DDDGDDDGDDDG", "DDDG|DDDG|"),  # a discriminator that steps more often
        ("GDDGDDGDDGDDGDDGDD", "DDG|DDG|DD"),
        ("ABABBABABAB", "AB|B|AB|AB|AB|"),  # a step of A skipped by its GradScaler
        ("ABABAABABAB", "AB|AAB|AB|AB|"),  # and one of B
    ],
)
def test_the_optimizer_that_steps_last_in_the_cycle_ends_the_step(sequence: str, settles_to: str) -> None:
    assert steps_in(sequence).endswith(settles_to)


def test_each_cycle_ends_exactly_one_step() -> None:
    cycle = Cycle()
    ended = [cycle.closed_by(ord(name)) for name in "ABC" * 40]

    assert sum(ended) == 40


def test_an_optimizer_that_steps_no_more_does_not_hold_the_steps_up() -> None:
    assert steps_in("AB" * 10 + "A" * 100).endswith("A|A|A|")


BEFORE = ("waiting", "control_before", "warmup")
SLOW = """
import time
for (batch,) in loader(40):
    time.sleep(0.01)
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_the_first_step_which_nobody_saw_begin_has_no_time(tmp_path: Path) -> None:
    done = run(BARE + SLOW, tmp_path, {})

    assert done.returncode == 0, done.stderr
    steps = facts(tmp_path / "out")["steps"]
    assert steps["waiting_ns"][0] is None
    assert min(steps["waiting_ns"][1:]) > 10_000_000
    assert steps["first_active_step"] == 1 + sum(len(steps[f"{name}_ns"]) for name in BEFORE)


UPDATES = """
import time
class Slow(torch.optim.SGD):
    def step(self, closure=None):
        time.sleep(0.005)
        return super().step(closure)
optimizer = Slow(model.parameters(), lr=0.1)
for (batch,) in loader(40):
    time.sleep(0.01)
    model(batch).mean().backward()
    optimizer.step({})
    optimizer.zero_grad()
"""
PASSES = "lambda: model(batch).mean()"


@pytest.mark.parametrize(("closure", "timed"), [("None", True), (PASSES, False)], ids=["an update", "the passes, too"])
def test_the_update_of_a_bare_loop_is_timed_without_the_profiler(closure: str, timed: bool, tmp_path: Path) -> None:
    done = run(BARE + UPDATES.format(closure), tmp_path, {})

    assert done.returncode == 0, done.stderr
    steps = facts(tmp_path / "out")["steps"]
    assert ("diagnose.optimizer" in steps["unprofiled_ranges_ns"]) is timed
    if timed:
        updates, whole = steps["unprofiled_ranges_ns"]["diagnose.optimizer"], steps["unprofiled_host_ns"]
        assert all(5_000_000 <= ns <= step - 10_000_000 for ns, step in zip(updates, whole, strict=True))


TWO = """
other = nn.Linear(8, 1)
second = torch.optim.SGD(other.parameters(), lr=0.1)
for (batch,) in loader(40):
    model(batch).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    other(batch).mean().backward()
    second.step()
    second.zero_grad()
"""


def test_two_optimizers_make_one_step(tmp_path: Path) -> None:
    done = run(BARE + TWO, tmp_path, {})

    assert done.returncode == 0, done.stderr
    found = ranges(tmp_path / "out")
    assert sum(name.startswith("ProfilerStep#") for name in found) == 3
    assert len(found["Optimizer.step#AdamW.step"]) == len(found["Optimizer.step#SGD.step"]) == 3


RESUMED = """
held = torch.optim.AdamW(model.parameters())
for parameter in model.parameters():
    held.state[parameter] = {"step": torch.tensor(1000.0), "exp_avg": torch.zeros_like(parameter),
                             "exp_avg_sq": torch.zeros_like(parameter)}
optimizer.load_state_dict(held.state_dict())
"""


@pytest.mark.parametrize(("at_step", "first"), [(1012, 1012), (12, 1002)])
def test_a_resumed_loop_counts_on_by_its_optimizers_steps(at_step: int, first: int, tmp_path: Path) -> None:
    """A step that is over is as good as none: the window opens as soon as it can."""
    done = run(BARE + RESUMED + "loop(40)\n", tmp_path, {"at_step": at_step, "steps": 2})

    assert done.returncode == 0, done.stderr
    marks = sorted(name for name in ranges(tmp_path / "out") if name.startswith("ProfilerStep"))
    assert marks == [f"ProfilerStep#{number}" for number in (first, first + 1)]
    assert facts(tmp_path / "out")["steps"]["first_active_step"] == first
    assert any("is over" in line for line in said(done)) == (at_step < 1000)


ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model, optimizer, batches = accelerator.prepare(model, optimizer, loader(60))
for (batch,) in batches:
    with accelerator.accumulate(model):
        accelerator.backward(model(batch).mean())
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
"""


def test_an_accelerate_loop_has_its_ranges(tmp_path: Path) -> None:
    needs("accelerate")
    done = run(BARE + ACCELERATE, tmp_path, {})

    assert done.returncode == 0, done.stderr
    found = ranges(tmp_path / "out")
    assert sum(name.startswith("ProfilerStep#") for name in found) == 3
    assert len(found["diagnose.backward"]) == 6
    assert {"diagnose.clip", "diagnose.optimizer", "diagnose.to_device"} <= found.keys()
    assert facts(tmp_path / "out")["model"]["class"] == "Sequential"


def test_a_loop_shorter_than_the_window_still_leaves_a_trace(tmp_path: Path) -> None:
    done = run(BARE + "loop(5)\n", tmp_path, {})

    assert done.returncode == 0, done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"
    assert facts(tmp_path / "out")["steps"]["shortened"] is True


def test_stop_leaves_the_loop_through_system_exit(tmp_path: Path) -> None:
    script = BARE + "try:\n    loop(5000)\nfinally:\n    print('cleaned up')\nprint('not reached')\n"
    done = run(script, tmp_path, {"stop": True, "sample_steps": 2})

    assert done.returncode == 0, done.stderr
    assert done.stdout == "cleaned up\n"
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"


def test_loader_workers_are_left_alone(tmp_path: Path) -> None:
    script = BARE.replace("loader(steps)", "loader(steps, num_workers=2)") + "loop(40)\n"
    done = run(script, tmp_path, {})

    assert done.returncode == 0, done.stderr
    assert said(done) == []
    assert facts(tmp_path / "out")["dataloader"]["num_workers"] == 2


def test_a_compiled_optimizer_step_raises_no_warning(tmp_path: Path) -> None:
    strict = "import warnings\nwarnings.filterwarnings('error', category=UserWarning)\n"
    script = BARE + strict + "optimizer.step = torch.compile(optimizer.step, backend='eager')\nloop(20)\n"
    done = run(script, tmp_path, {})

    assert done.returncode == 0, done.stderr
    assert marker(tmp_path / "out")["trace"] == "rank0.json.gz"


def test_an_optimizer_for_each_parameter_makes_one_step() -> None:
    """More of them than are forgotten after a pause: a step ends with the one first seen last."""
    cycle = Cycle()
    ended = [[optimizer for optimizer in range(300) if cycle.closed_by(optimizer)] for _ in range(20)]

    assert ended == [[0]] + [[299]] * 19
