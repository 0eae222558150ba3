"""What is true of a simulated job: learnt by running it again without what it waits for, and with each change made.

Nothing here reads a trace or asks the analysis, so that neither can agree with itself.
"""

import tomllib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
from simulator import WholeJob
from simulator.job import Job, Resource
from simulator.simulation import loop_of

from diagnose.attribution.leading import NAMES_THE_CLASS, leader

from .changed import changed, factor_in

RESOURCES: tuple[Resource, ...] = ("data", "host", "communication")
CLASSES = {"data": "data-bound", "host": "host-bound", "communication": "communication-bound",
           "compute": "compute-bound", "memory": "memory-bound"}  # fmt: skip
WORTH_DOING = 1.02  # a change that buys less is none
POWERS = (0.5, 1.7)
STEPS = 3  # that a run is timed over: the first is left out


@dataclass(frozen=True)
class Ran:
    """One run: the steady step in milliseconds, and of its kernels the time that arithmetic and memory bound."""

    step_ms: float
    compute_ms: float
    memory_ms: float


@cache
def ran(job: Job) -> Ran:
    """The job, run without writing a trace."""
    job = replace(job, steps=STEPS)
    loop = loop_of(job)
    machine = loop.run()
    ends = [float(finished.max()) for finished in loop.finished]
    step_ms = float(np.mean(np.diff(ends))) / 1e6
    compute, memory = (machine.kernel_ns[bound] / job.steps / 1e6 for bound in (False, True))
    return Ran(step_ms, compute, memory)


def step_ms(job: Job) -> float:
    """The steady step in milliseconds."""
    return ran(job).step_ms


def per_token(job: Job) -> float:
    """Step time over the samples of a step."""
    samples = job.shape.batch * job.accumulates if isinstance(job, WholeJob) else 1
    return step_ms(job) / samples


@dataclass(frozen=True)
class Truth:
    """What is true of a job.

    Attributes:
        class_: what bounds it.
        near: another class that is right, too: on the other side of a boundary that is near, or communication where
            ranks wait for each other for what no free resource shortens, as in the bubbles of a pipeline; else "".
        shares: of the step, what would be saved were data, host or communication free, and the kernels' time.
        gains: rule -> how many times as fast the job is when its advice is followed.
    """

    class_: str
    near: str
    shares: Mapping[str, float]
    gains: Mapping[str, float]

    @property
    def best(self) -> tuple[str, float]:
        """The rule of the change that buys most, and what it buys; "" and 1 where none is worth doing.

        Changes of how many tokens a step trains on are other training, and none of them; nor is a change that a job may
        refuse.
        """
        kept = {
            rule: gain
            for rule, gain in self.gains.items()
            if not {"alters_batch", "may_be_refused"} & cures()[rule].keys()
        }
        rule, gain = max(kept.items(), key=lambda item: item[1], default=("", 1.0))
        return (rule, gain) if gain >= WORTH_DOING else ("", 1.0)


def truth_of(job: Job) -> Truth:
    """Runs the job with each resource free and with each change."""
    whole = ran(job)
    shares = dict.fromkeys(RESOURCES, 0.0)
    for one in RESOURCES if job.ranks > 1 else RESOURCES[:2]:
        shares[one] = 1 - step_ms(replace(job, free=(one,))) / whole.step_ms
    shares |= {"compute": whole.compute_ms / whole.step_ms, "memory": whole.memory_ms / whole.step_ms}
    first, beside = leader(shares)
    if 1 - sum(shares.values()) > NAMES_THE_CLASS and not beside:
        beside = "communication"
    return Truth(CLASSES[first], CLASSES.get(beside, ""), shares, gains(job))


@cache
def cures() -> Mapping[str, Any]:
    """The table of what each rule's advice changes."""
    return tomllib.loads((Path(__file__).parent / "cures.toml").read_text(encoding="utf-8"))


def gains(job: Job) -> dict[str, float]:
    """What each change that changes this job buys."""
    found = {}
    for rule, cure in cures().items():
        if _is_for(job, cure) and (cured := changed(job, _changes(rule, job))) != job:
            found[rule] = per_token(job) / per_token(cured)
    return found


def _changes(rule: str, job: Job) -> Mapping[str, Any]:
    """What the rule's advice changes; of a job with drawn figures each factor is raised to a power, of one half to 1.7.

    The power is of the job and of the rule: 0.35 of what the host did becomes 0.17 to 0.59 of it.
    """
    stated: Mapping[str, Any] = cures()[rule]["set"]
    seed = getattr(job, "drawn", 0)
    if not seed:
        return stated
    power = float(np.random.default_rng((seed, zlib.crc32(rule.encode()))).uniform(*POWERS))
    factors = {path: factor_in(to, "x") for path, to in stated.items()}
    return {**stated, **{path: f"x{each**power:.4f}" for path, each in factors.items() if each is not None}}


def measured_rules(job: Job) -> frozenset[str]:
    """The rules whose change this kind of job has, whether or not it is made already."""
    return frozenset(rule for rule, cure in cures().items() if _has(job, cure))


def _has(job: Job, cure: Mapping[str, Any]) -> bool:
    return all(hasattr(job, path.partition(".")[0]) for path in cure["set"])


def _is_for(job: Job, cure: Mapping[str, Any]) -> bool:
    """Whether the job has what is to be changed, on a GPU that can, in the state that the change starts from."""
    return _has(job, cure) and all(attrgetter(path)(job) in values for path, values in cure.get("where", {}).items())
