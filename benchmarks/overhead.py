"""What the probes cost: a range and a step hook, idle, armed and active, against the same loop without them.

    python benchmarks/overhead.py

idle: nothing listens. armed: a session waits for its window. active: the profiler records.
Every figure is the least of rounds that take turns: other work only ever lengthens one.
Ratios hold across machines, nanoseconds do not.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping

import torch

from diagnose.probes.config import Config
from diagnose.probes.current_session import configure
from diagnose.probes.hooks import torch_hooks
from diagnose.probes.recording.ranges import FORWARD, Range, ranged
from diagnose.probes.session import Session

ROUNDS = 15
CALLS = 3000
STEPS = 20
WAIT_FOREVER = 10**9


def ns_per_call(function: Callable[[], object], calls: int) -> float:
    """Nanoseconds of one call, the loop's own included."""
    began = time.perf_counter_ns()
    for _ in range(calls):
        function()
    return (time.perf_counter_ns() - began) / calls


def interleaved(functions: Mapping[str, Callable[[], object]], calls: int) -> dict[str, float]:
    """The least nanoseconds of each function, in rounds that take turns."""
    rounds = [{name: ns_per_call(function, calls) for name, function in functions.items()} for _ in range(ROUNDS)]
    return {name: min(each[name] for each in rounds) for name in functions}


def nothing() -> None:
    """What a wrapped method does here."""


def in_range() -> None:
    """A block inside a range."""
    with Range(FORWARD):
        pass


def training_step() -> Callable[[], None]:
    """A step of a small model with a fused optimizer."""
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    batch = torch.randn(64, 256)

    def step() -> None:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def show(title: str, times: Mapping[str, float], base: str) -> None:
    """Print each time, and what it adds to `base`."""
    print(title)
    for name, ns in times.items():
        print(f"  {name:28} {ns:12.0f} ns   {ns / times[base]:7.3f} x   +{ns - times[base]:.0f} ns")


def ranges() -> None:
    """Idle and active cost of a range."""
    calls = {"plain call": nothing, "wrapped call": ranged(nothing, FORWARD), "with Range": in_range}
    show("range, idle", interleaved(calls, CALLS), "plain call")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        active = interleaved(calls, CALLS // 20)
    show("range, active", active, "plain call")


def hooks() -> None:
    """Cost of the step hook: idle (no hook), armed (counts steps), done, and active (profiled)."""
    step = training_step()
    times: dict[str, list[float]] = {"idle": [], "armed": []}
    with tempfile.TemporaryDirectory() as folder:
        waiting = configure(Config(folder, skip=WAIT_FOREVER, at_step=WAIT_FOREVER))
        for number in range(2 * ROUNDS):
            armed = number % 4 in (1, 2)  # idle, armed, armed, idle: neither gains from its place
            torch_hooks.install() if armed else torch_hooks.remove()
            times["armed" if armed else "idle"].append(ns_per_call(step, STEPS))
        hook = ns_per_call(waiting.step_ended, CALLS)
        waiting.loop_ended()
        session = Session(Config(folder, at_step=30, steps=20, control=20, sample_steps=0))
        session.loop_begins("code")
        while session.phase != "done":
            step()
            session.step_ended()
    idle_and_armed = {name: min(rounds) for name, rounds in times.items()}
    show("step, rounds that take turns", idle_and_armed, "idle")
    print(f"  {'one armed hook call':28} {hook:12.0f} ns   {hook / idle_and_armed['idle']:9.5f} of an idle step")
    unprofiled = session.clock.times("control") + session.clock.times("control_after")
    profiled = {"control": min(unprofiled), "active": min(session.clock.times("active"))}
    show("step, profiled with shapes, against control steps of the same run", profiled, "control")


if __name__ == "__main__":
    torch.set_num_threads(1)
    ranges()
    hooks()
