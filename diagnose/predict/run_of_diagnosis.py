"""A diagnosis as one run of a scaling table: the step, what it went to, and the tokens of the job."""

from collections.abc import Mapping
from math import sqrt

from diagnose.attribution.causes import EXPOSED, EXPOSED_TRANSFER, LATE_RANK
from diagnose.diagnosis import Diagnosis, LedgerEntry
from diagnose.errors import UserError
from diagnose.predict.growth import RUN_NOISE
from diagnose.predict.job_run import MOST_GPUS, JobRun

WAITING, COMMUNICATION = "waiting for late ranks", "exposed communication"
_WORK = "compute and memory work"
_PARTS = {"compute": _WORK, "memory": _WORK, "communication": "copies between devices", "unexplained": "unexplained"}
_TRANSFER_FACT = "transfer_share"


def run_of(diagnosis: Diagnosis, source: str) -> JobRun:
    """The run that the diagnosis is about.

    Step times without the profiler are used if the capture timed some; the parts keep their shares of the profiled
    step. Where one step in several takes longer, the step is the mean of a whole period.

    Raises:
        UserError: no step was counted.
    """
    facts = {fact.name: fact.value for fact in diagnosis.facts}
    step_s = _profiled_step_s(diagnosis)
    if step_s is None:
        raise UserError("no step was counted", where=source, do="capture a few whole steps (diagnose run)")
    if diagnosis.period is not None:
        step_s = diagnosis.period.mean_ns / 1e9
    elif (unprofiled := _number(facts, "unprofiled_step_time_ns")) is not None:
        step_s = min(unprofiled / 1e9, step_s)
    gpus = gpus_of(diagnosis)
    tokens = diagnosis.mfu.tokens_per_step
    parts = _parts_s(diagnosis, step_s)
    spread = (_number(facts, "step_noise_share") or 0.0) / sqrt(max(diagnosis.steps.count, 1))
    nodes = _number(facts, "nodes")
    return JobRun(
        source,
        gpus,
        nodes=None if nodes is None else int(nodes),
        step_s=step_s,
        tokens_per_step=None if tokens is None else tokens * gpus,
        noise_share=max(RUN_NOISE, spread),
        parts_s=parts,
        communication_s=sum(parts.get(name, 0.0) for name in (COMMUNICATION, EXPOSED_TRANSFER, WAITING)),
        power_w=_number(facts, "gpu_power_w"),
    )


def _profiled_step_s(diagnosis: Diagnosis) -> float | None:
    steps = diagnosis.steps
    total = steps.time_ns if steps.device_time_ns is None else steps.device_time_ns
    return total / steps.count / 1e9 if steps.count and total else None


def gpus_of(diagnosis: Diagnosis) -> int:
    """Ranks of the job: those stated, else those seen and those missing."""
    seen = len(diagnosis.ranks) + len(diagnosis.trace.missing_ranks)
    stated = diagnosis.fact("world_size")
    return min(max(seen, int(_number({"world_size": stated}, "world_size") or 1), 1), MOST_GPUS)


def _number(facts: Mapping[str, float | bool | str | None], name: str) -> float | None:
    value = facts.get(name)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _parts_s(diagnosis: Diagnosis, step_s: float) -> dict[str, float]:
    """Seconds of a step by part; they add up to `step_s`."""
    whole = sum(entry.ns for entry in diagnosis.ledger)
    divided = diagnosis.fact(_TRANSFER_FACT) is not None
    parts: dict[str, float] = {}
    for entry in diagnosis.ledger if whole else ():
        name = _part(entry, divided)
        parts[name] = parts.get(name, 0.0) + step_s * entry.ns / whole
    return parts


def _part(entry: LedgerEntry, divided: bool) -> str:
    if entry.cause == EXPOSED:
        return EXPOSED_TRANSFER if divided else COMMUNICATION
    if entry.cause.startswith(LATE_RANK):
        return WAITING
    return _PARTS.get(entry.class_, entry.class_)
