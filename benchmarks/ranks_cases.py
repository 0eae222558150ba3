"""The simulated jobs of `ranks_confusion.py`, and what the analysis made of each beside what is true."""

import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from simulator import CAUSES, KINDS, Clocks, Fault, Job, Kind, Simulated, simulate
from simulator.faults import STAGE, STAGES
from simulator.job import Parallelism

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import NO_STRAGGLER, LatenessCause
from diagnose.ranks.replay.changes import EQUAL_STAGES

TWO_LATE: Literal["two_late"] = "two_late"
Name = Kind | Literal["two_late"]
NAMES: tuple[Name, ...] = (*(kind for kind in KINDS if kind != "none"), TWO_LATE, "none")
SKEW = Clocks(offset_ms=5, drift_ppm=50)
WORTH_NAMING = 0.05  # of the step
WORTH_TELLING = 1.02  # a stage of which nobody made a fault is rightly told if equal stages buy so much
NEAR = 0.05  # of the speed: how far the price of a cure may be off
NOBODY, ANOTHER, ONE_OF_TWO = "nobody", "another rank", "one of two"
UNTOLD, UNEVEN = "slow transfer, link not told", "work uneven in turn"
OUTCOMES = (*get_args(LatenessCause), STAGE, ONE_OF_TWO, UNEVEN, UNTOLD, NOBODY, ANOTHER)
ONE_GROUP = ("ddp", "fsdp")
SLOW_TRANSFER = ("slow-network", "slow-links")
IN_TURN = "rotating-stragglers"
Range = tuple[float, float]


@dataclass(frozen=True)
class Case:
    """One simulated job and what was named.

    Attributes:
        name: of the fault.
        outcome: one of OUTCOMES.
        slowdown: the part of the step that the fault makes up.
        note: what was named and what is true.
        tells_links: whether the job has groups of which a slow link makes some slower than others.
        gain: how many times as fast the job is when cured: for a stage from equal stages to stages like the others.
        priced: what was predicted of that, None if nothing was.
        negative: whether a wait below zero was told.
    """

    name: Name
    outcome: str
    slowdown: float
    note: str
    tells_links: bool = True
    gain: Range = (1.0, 1.0)
    priced: Range | None = None
    negative: bool = False

    @property
    def is_persistent(self) -> bool:
        """Whether somebody is to be named."""
        return is_persistent(self.name)

    @property
    def matters(self) -> bool:
        """Whether the fault makes up so much of the step that it is worth naming."""
        return self.slowdown >= WORTH_NAMING

    @property
    def expected(self) -> str:
        """The outcome that is right where the fault matters."""
        if self.name == "slow_link" and not self.tells_links:
            return UNTOLD
        if self.name == TWO_LATE:
            return "slower_kernels"
        return CAUSES[self.name] or (NOBODY if self.name == "none" else UNEVEN)

    @property
    def right(self) -> bool:
        """Whether what is at fault was named with its cause; where it hardly prolongs the step, nobody is right too.

        A pipeline hides some faults in its bubbles.
        """
        return self.outcome == self.expected or (self.outcome == NOBODY and not self.matters)

    @property
    def accuses(self) -> bool:
        """Whether a rank that is not at fault was named."""
        return self.outcome == ANOTHER

    @property
    def is_priced(self) -> bool:
        """Whether a right answer has a price to be held against the truth; that transfers are slow has none."""
        return self.matters and self.outcome == self.expected and self.outcome not in (UNTOLD, NOBODY, "link")

    @property
    def price_right(self) -> bool:
        """Whether the range that was predicted holds the true gain, or misses it by little."""
        return self.priced is not None and (
            self.priced[0] <= self.gain[1] * (1 + NEAR) and self.priced[1] >= self.gain[0] / (1 + NEAR)
        )

    @property
    def best_error(self) -> float:
        """How far the high end is from the true gain, as its part."""
        return abs(self.priced[1] / self.gain[1] - 1) if self.priced else self.gain[1] - 1


def job_of(name: Name, seed: int, layout: Parallelism, ranks: int = 8, steps: int = 5) -> Job:
    """The job of one seed: other late ranks, jitter and clocks, and other forms of a pipeline."""
    node = max(ranks // 2, 1)
    return Job(
        ranks=ranks, ranks_per_node=node, steps=steps, seed=seed, parallelism=layout, clocks=SKEW,
        faults=_faults(name, seed, layout, ranks), micro_batches=8, batched=seed % 2 == 0,
        odd_rank=(3 * seed) % ranks if layout == "pp_dp" and seed % 3 == 2 else None,
    )  # fmt: skip


def _faults(name: Name, seed: int, layout: Parallelism, ranks: int) -> tuple[Fault, ...]:
    """The late rank moves with the seed, except the one that writes checkpoints."""
    late, node = (5 * seed + 3) % ranks, max(ranks // 2, 1)
    if name == "none":
        return ()
    if name == TWO_LATE:
        return (Fault("slow_kernels", (late, (late + ranks // 2 + 1) % ranks), 1.4),)
    if name == "slow_link":
        return (Fault(name, tuple(range(late // node * node, late // node * node + node))),)
    if name in STAGES:
        width = ranks // Job.model_parallel
        return (Fault(name, tuple(range(late // width * width, late // width * width + width))),)
    return (Fault(name, (0 if name == "checkpoint" else late,)),)


def is_persistent(name: Name) -> bool:
    """Whether somebody is to be named: a rank, a stage or a link."""
    return name == TWO_LATE or bool(CAUSES[name])


def judged(name: Name, job: Job) -> Case:
    """Simulates the job, analyses it, and compares."""
    simulated = simulate(job)
    with tempfile.TemporaryDirectory() as folder:
        truth = simulated.write(Path(folder), gz=False)
        answer = analyze(folder, options=Options(network_gbs=_network_gbs(job)))
    outcome = _outcome(answer, name, simulated)
    whole = truth.gains["without faults"]
    return Case(
        name, outcome, 1 - 1 / whole, _note(answer, name, job, outcome), job.parallelism not in ONE_GROUP,
        (truth.gains["equal stages"], whole) if name in STAGES else (whole, whole), _priced(answer, outcome),
        _is_negative(answer),
    )  # fmt: skip


def _network_gbs(job: Job) -> float:
    """Of a node, as `--network-gbs` states it."""
    return job.links.network_bytes_per_s_per_rank * job.ranks_per_node / 1e9


def _outcome(answer: Diagnosis, name: Name, simulated: Simulated) -> str:
    """What was named; of the ranks only those that are said to be late always, of the stages only what matters."""
    job = simulated.job
    at_fault = {rank for fault in job.faults for rank in fault.ranks if CAUSES[fault.kind]}
    named = {late.rank: late.cause for late in answer.stragglers if not late.suspected}
    is_stage = any(fault.kind in STAGES for fault in job.faults)
    told, linked = _stage_told(answer), _slowly_linked(answer)
    if not {*named, *linked} <= at_fault or (told and not is_stage and simulated.gain_of_equal_stages < WORTH_TELLING):
        return ANOTHER
    if is_stage and re.search(rf"[( ]{', '.join(map(str, job.faults[0].ranks))}\)", told):
        return STAGE
    if named:
        return ONE_OF_TWO if name == TWO_LATE and len(named) < len(at_fault) else next(iter(named.values()))
    if linked:
        return "link"
    rules = {finding.rule for finding in answer.findings}
    return UNEVEN if IN_TURN in rules else UNTOLD if rules & {*SLOW_TRANSFER} else NOBODY


def _stage_told(answer: Diagnosis) -> str:
    """What a finding says of a stage that has more work than the others."""
    return next((finding.says for finding in answer.findings if finding.rule == "uneven-stages"), "")


def _slowly_linked(answer: Diagnosis) -> set[int]:
    """The ranks whose links are told to be slow, though none of them is late."""
    return {rank for group in (answer.postmortem.slow_links if answer.postmortem else ()) for rank in group.ranks}


def _priced(answer: Diagnosis, outcome: str) -> Range | None:
    if outcome == UNEVEN:
        speedup = next(finding.predicted_speedup for finding in answer.findings if finding.rule == IN_TURN)
        return (speedup[0], speedup[1] or speedup[0]) if speedup else None
    changes = {change.change: change.speedup for change in answer.postmortem.changes} if answer.postmortem else {}
    return changes.get(EQUAL_STAGES if outcome == STAGE and EQUAL_STAGES in changes else NO_STRAGGLER)


def _is_negative(answer: Diagnosis) -> bool:
    traffic = answer.postmortem.traffic if answer.postmortem else ()
    waits = [(late.waiting_ns_caused, late.share, late.waiting_share or 0.0) for late in answer.stragglers]
    waits += [(row.waiting_ns, row.exposed_share, row.exposed_waiting_share or 0.0) for row in traffic]
    return any(min(each) < 0 for each in waits)


def _note(answer: Diagnosis, name: Name, job: Job, outcome: str) -> str:
    named = ", ".join(f"rank {late.rank}: {late.cause}" for late in answer.stragglers) or outcome
    true = "; ".join(f"ranks {fault.ranks}: {CAUSES[fault.kind]}" for fault in job.faults if CAUSES[fault.kind])
    return f"{job.parallelism}, {name}, seed {job.seed}: {named}; true is {true or NOBODY}"
