"""The record capture-rank{R}.json: facts that a trace lacks. Every value passes an allow-list, and may be null."""

from __future__ import annotations

import os
import platform
import re
import statistics
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .. import announced
from ..apply import job_patch
from ..config import rank_and_world_size
from ..guard import quietly
from ..introspection import plain
from ..machine.cores import cores
from ..machine.malloc import malloc_library
from ..machine.network_ports import network_ports
from ..threaded import run_in_thread
from .compiled import compilations
from .interpreter import traced_by
from .machine import device, environment, memory, versions
from .model import model_facts, module_of, optimizer_facts, unstepped_gradients, wrapped_facts
from .script import script_facts
from .torch_settings import torch_settings
from .zero import zero_facts

if TYPE_CHECKING:
    from ..limits.allowance import Allowance
    from ..recording.clock import StepClock
    from ..recording.nsight_window import AnyRecorder
    from ..window import Window
    from .job_objects import JobObjects
    from .padding import PaddingSums
    from .rows import RowSums

SCHEMA_VERSION = 1
SLURM = (
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_NTASKS",
    "SLURM_NNODES",
    "SLURM_JOB_NUM_NODES",
)
_OF_THE_MACHINE = ("host", "slurm", "cores", "versions", "environment", "network_ports", "malloc")
_NUMBERS = re.compile(r"[0-9]{1,20}\Z")


def facts(
    job: JobObjects,
    *,
    window: Window | None,
    clock: StepClock,
    recorder: AnyRecorder | None,
    source: str | None,
    error: str | None,
    allowance: Allowance | None = None,
    command: list[str] | None = None,
) -> dict[str, object]:
    """The record of the job and the window; a part that cannot be had is null.

    Args:
        job: its model, optimizer, loader and batches.
        window: the steps of the capture, timed by `clock`, recorded by `recorder`, counted by `source`.
        error: why the capture ended early, if it did.
        allowance: the part of the window that was to be recorded, and the part that was.
        command: the words of the job's command, without secrets.
    """
    rank, world_size = rank_and_world_size()
    machine = quietly(lambda: run_in_thread(lambda: _machine(world_size)))  # reads files: the library swallows OSErrors
    optimizer = job.get("optimizer")
    model = quietly(lambda: _model(job))
    settings = quietly(job.arguments) if job.arguments is not None else None
    return {
        "schema_version": SCHEMA_VERSION,
        "rank": rank,
        "world_size": world_size,
        **_or_null(machine, _OF_THE_MACHINE),
        "device": quietly(device),
        "torch_settings": quietly(torch_settings),
        "python_traced_by": quietly(traced_by),
        "model": quietly(lambda: model_facts(model)),
        "training_loop": job.loop,
        "training_arguments": settings,
        "dataloader": quietly(lambda: _loader(job)),
        "loading": quietly(job.loaders.facts),
        "batch": quietly(lambda: batch_facts(list(job.batches), job.padding, job.rows)),
        "optimizer": quietly(lambda: _optimizer(job, optimizer)),
        **_wrapping(model),
        "zero": quietly(lambda: zero_facts(job.get("engine"))),
        "compilations": quietly(compilations),
        "announced": quietly(announced.facts),
        "liger": quietly(lambda: _liger(settings)),
        "memory": quietly(memory),
        "refuses": quietly(lambda: job.refusals.facts(optimizer, model, job.rows.facts())),
        "command": command,
        "script": quietly(lambda: run_in_thread(lambda: script_facts(optimizer))),
        **_patch(),
        **_or_null(quietly(lambda: _steps(window, clock, source)), ("steps", "overhead_factor")),
        "profiler": (recorder.settings or None) if recorder is not None else None,
        "recording": quietly(allowance.facts) if allowance is not None and recorder is not None else None,
        "error": error,
    }


def _or_null(facts: object, names: tuple[str, ...]) -> Mapping[str, object]:
    """The facts; null for each name if there are none."""
    return facts if isinstance(facts, dict) else dict.fromkeys(names)


def _machine(world_size: int) -> dict[str, object]:
    return {
        "host": quietly(platform.node),
        "slurm": {name: os.environ[name] for name in SLURM if _NUMBERS.match(os.environ.get(name, ""))},
        "cores": quietly(lambda: cores(os.environ, world_size)),
        "versions": quietly(versions),
        "environment": quietly(lambda: environment(os.environ)),
        "network_ports": quietly(network_ports),
        "malloc": quietly(malloc_library),
    }


def batch_facts(batches: list[dict[str, Any]], padding: PaddingSums, rows: RowSums) -> dict[str, object] | None:
    """Shapes of the last batch seen, the mean tokens of the last few, and the padding of all; None when none was."""
    if not batches:
        return None
    tokens = [batch["tokens"] for batch in batches if batch["tokens"] is not None]
    return {
        "shapes": batches[-1]["shapes"],
        "bytes": batches[-1].get("bytes"),
        "tokens": statistics.fmean(tokens) if tokens else None,
        "batches_seen": len(batches),
        "padding_share": padding.share,
        "padding": padding.facts(),
        "rows": rows.facts(),
    }


def _patch() -> Mapping[str, object]:
    """The changes of a patch that the run applied, and those that it refused."""
    patch = quietly(job_patch.facts)
    return patch if isinstance(patch, dict) else {"applied": None, "refused": [], "expected": None}


def _steps(window: Window | None, clock: StepClock, source: str | None) -> dict[str, object]:
    """Step times in nanoseconds by phase, and how much longer a profiled step takes."""
    phases = {"control_before": "control", "warmup": "warmup", "active": "active", "control_after": "control_after"}
    steps: dict[str, Any] = {f"{name}_ns": clock.times(phase) for name, phase in phases.items()}
    unprofiled = steps["control_before_ns"] + steps["control_after_ns"]
    factor, core_times, system_work = None, clock.core_times(), clock.system_work()
    if unprofiled and steps["active_ns"]:
        factor = statistics.median(steps["active_ns"]) / max(statistics.median(unprofiled), 1)
    return {
        "steps": {
            **steps,
            "active_cpu_ns": [times and times[0] for times in core_times],
            "active_core_wait_ns": [times and times[1] for times in core_times],
            "unprofiled_system_ns": [work and work[0] for work in system_work],
            "unprofiled_page_faults": [work and work[1] for work in system_work],
            "waiting_ns": clock.waited(),
            "unprofiled_host_ns": clock.host_times(),
            "unprofiled_ranges_ns": clock.range_times(),
            "unprofiled_gc_ns": clock.collection_times(),
            "collections": clock.collections(),
            "clock": clock.source,
            "source": source,
            "first_active_step": window.first_active or None if window else None,
            "settled": window.settled if window else None,
            "shortened": window.plan.shortened if window else None,
            "passed": window.passed if window else None,
            "cut_by": window.cut_by or None if window else None,
        },
        "overhead_factor": factor,
    }


def _model(job: JobObjects) -> Any:
    """The model noted by the Trainer, else the module that holds most of the optimizer's parameters."""
    noted = job.get("model")
    return module_of(job.get("optimizer")) if noted is None else noted


def _loader(job: JobObjects) -> dict[str, object] | None:
    if not job.loader:
        return None
    return {**{name: plain(value) for name, value in job.loader.items()}, "made_by": job.made_by.get("loader")}


def _optimizer(job: JobObjects, optimizer: Any) -> dict[str, object] | None:
    known = optimizer_facts(optimizer)
    return known and {
        **known,
        "made_by": job.made_by.get("optimizer"),
        "unstepped_gradients": quietly(lambda: unstepped_gradients(optimizer)),
    }


def _wrapping(model: Any) -> Mapping[str, object]:
    return _or_null(quietly(lambda: wrapped_facts(model)), ("compiled", "ddp", "fsdp"))


def _liger(settings: Any) -> dict[str, object]:
    """Whether Liger kernels are asked for, and whether its module is in use in this process."""
    asked = settings.get("use_liger_kernel") if settings is not None else None
    return {"asked": asked, "loaded": "liger_kernel.transformers" in sys.modules}
