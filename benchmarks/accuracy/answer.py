"""What the analysis says of a job, as far as it is scored."""

import json
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measuring import rules_read_once
from simulator import WholeJob, simulate
from simulator.job import Job, Transport

from diagnose.analysis import Options, analyze
from diagnose.diagnosis import Diagnosis

GPU_EVENTS = ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")
Range = tuple[float, float | None]


@dataclass(frozen=True)
class Answer:
    """The scored part of a diagnosis.

    Attributes:
        class_: of the verdict.
        between: the two classes that it is close to, or none.
        first: the rule of the first advice, "" for nothing, "capture" where it is about the capture.
        fired: rules of the findings that are not about the capture.
        promised: rule -> the range of its speed-up.
        negatives: what is said not to help.
        late: the ranks named, each with its cause.
        replay_error: how far the unchanged replay of a rank is from the measured step, None without one.
        joint_error: the same of all ranks together, of the rank that is furthest away.
    """

    class_: str
    between: tuple[str, ...]
    first: str
    fired: tuple[str, ...]
    promised: Mapping[str, Range]
    negatives: tuple[str, ...]
    late: tuple[tuple[int, str], ...]
    replay_error: float | None = None
    joint_error: float | None = None


def answer_of(diagnosis: Diagnosis) -> Answer:
    """The scored part."""
    first = {"change": diagnosis.next.rule, "capture": "capture"}.get(diagnosis.next.kind, "")
    findings = [finding for finding in diagnosis.findings if finding.class_ != "validity"]
    return Answer(
        class_=diagnosis.verdict.class_,
        between=tuple(diagnosis.verdict.between),
        first=first,
        fired=tuple(finding.rule for finding in findings),
        promised={f.rule: (f.predicted_speedup[0], f.predicted_speedup[1]) for f in findings if f.predicted_speedup},
        negatives=tuple(no.what for no in diagnosis.not_advised),
        late=tuple((late.rank, late.cause) for late in diagnosis.stragglers),
        replay_error=diagnosis.replay.strict_error,
        joint_error=diagnosis.postmortem.changes_error if diagnosis.postmortem else None,
    )


def answered(job: Job, kept: float = 1.0) -> Answer:
    """Writes the job's traces, of whose GPU events a part is kept, and analyses them."""
    with tempfile.TemporaryDirectory() as name, rules_read_once():
        folder = Path(name)
        for rank, text in simulate(job).traces():
            (folder / f"rank{rank}.json").write_text(_thinned(text, kept, job.seed), encoding="utf-8")
            if isinstance(job, WholeJob):
                (folder / f"capture-rank{rank}.json").write_text(json.dumps(_record(job)), encoding="utf-8")
        network = Transport().network_bytes_per_s_per_rank * job.ranks_per_node / 1e9  # as it should be
        return answer_of(analyze(folder, options=Options(network_gbs=network if job.ranks > 1 else None)))


def _record(job: WholeJob) -> dict[str, Any]:
    """What a capture would record of the job's settings."""
    shape, code = job.shape, job.code
    count = shape.layers * shape.layer_parameters + 2 * shape.vocabulary * shape.width
    dtype = "bfloat16" if code.units == "bf16" and not code.casts_weights else "float32"
    arguments = {
        "per_device_train_batch_size": shape.batch, "gradient_accumulation_steps": job.accumulates,
        "bf16": code.casts_weights, "gradient_checkpointing": job.recomputes,
        "logging_steps": 1 if job.logs_ms else 500,
        "save_steps": 1 if job.saves_ms else 500, "save_strategy": "steps", "max_steps": 10_000,
    }  # fmt: skip
    memory = {"memory": {"max_reserved_bytes": 16 * count}} if job.recomputes else {}  # room for activations is free
    return memory | {
        "training_arguments": arguments,
        "dataloader": {"num_workers": job.workers, "pin_memory": job.pinned},
        "model": {"parameters": count, "trainable": count, "dtypes": {dtype: count}},
        "optimizer": {"class": "AdamW"},
    }


def _thinned(text: str, kept: float, seed: int) -> str:
    if kept == 1:
        return text
    drawn, trace = random.Random(seed), json.loads(text)
    events = (e for e in trace["traceEvents"] if e["cat"] not in GPU_EVENTS or drawn.random() < kept)
    return json.dumps(trace | {"traceEvents": list(events)})
