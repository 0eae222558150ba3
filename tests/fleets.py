"""Diagnoses of made-up jobs for `diagnose fleet`: what their ranks spend, on which hosts, when, and what is planned."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import diagnoses

from diagnose import analysis
from diagnose.commands.fleet.accounting import read_accounting
from diagnose.commands.fleet.answer import Fleet
from diagnose.commands.fleet.jobs import Terms
from diagnose.commands.fleet.judging import fleet_of
from diagnose.commands.fleet.reading import read_fleet
from diagnose.commands.fleet.tree import tree_at
from diagnose.diagnosis import Diagnosis, Finding, LedgerEntry, Origin, PlanStep, RankReport, Speedup, TraceSummary
from diagnose.diagnosis.postmortem import Straggler

H100 = "NVIDIA H100 80GB HBM3"
MS = 1_000_000
_CLASSES = {
    "data-wait": "data",
    "exposed-communication": "communication",
    "dispatch": "host",
    "gemm": "compute",
    "gpu-activity-missing": "unexplained",
}
_number = iter(range(10**9))  # no two captures take the same time


def made_job(
    hosts: Sequence[str] = ("node1",),
    gpus_each: int = 8,
    began: str = "2026-08-01T12:00:00Z",
    causes: Mapping[str, float] | None = None,
    plan: Sequence[tuple[str, Speedup]] = (),
    late: str = "",
    held: Mapping[str, tuple[str, ...]] | None = None,
    slurm: str = "",
    device: str = H100,
    **changes: Any,
) -> Diagnosis:
    """A job whose ranks spend these shares of each step, the rest on matrix products.

    Args:
        hosts: its machines, with so many GPUs each.
        gpus_each: ranks on a host.
        began: when, in UTC.
        causes: share of the step by cause.
        plan: rules with the speed of each change and all before it.
        late: the host whose first rank the others wait for.
        held: by host what holds its clocks down; None where no reading tells.
        slurm: the job's number.
        device: the GPU.
    """
    shares = dict(causes or {})
    shares["gemm"] = 1 - sum(shares.values())
    step_ns = 100 * MS + 1000 * next(_number)
    ledger = tuple(
        LedgerEntry(cause=cause, class_=_CLASSES[cause], ns=round(share * step_ns), share=share)  # type: ignore[arg-type]
        for cause, share in shares.items()
    )
    places = [host for host in hosts for _ in range(gpus_each)]
    ranks = tuple(
        RankReport(
            rank=rank, device=device, host=host, steps=4, verdict=diagnoses.verdict("data-bound"), ledger=ledger,
            clock_held_by=None if held is None else held.get(host, ()),
        )
        for rank, host in enumerate(places)
    )  # fmt: skip
    stragglers = (
        [Straggler(rank=places.index(late), cause="slower_kernels", waiting_ns_caused=9, host=late, share=0.1)]
        if late
        else []
    )
    made = {
        "ranks": ranks,
        "stragglers": tuple(stragglers),
        "origin": Origin(began=began, slurm_job=slurm),
        "trace": TraceSummary(files=("t.json",), events=9, bytes=step_ns, loss=diagnoses.NO_LOSS),
    }
    return diagnoses.diagnosis(**made | _planned(plan) | changes)


def _planned(plan: Sequence[tuple[str, Speedup]]) -> dict[str, Any]:
    return {
        "plan": tuple(
            PlanStep(rule=rule, patch=None, predicted_speedup=speed, cumulative_speedup=speed) for rule, speed in plan
        ),
        "findings": tuple(
            Finding(
                rule=rule, class_="data", severity="warning", says="", do="", evidence=(), predicted_speedup=speed,
                patch=None, action=f"do {rule}",
            )
            for rule, speed in plan
        ),
    }  # fmt: skip


def written(folder: Path, jobs: Mapping[str, Diagnosis]) -> Path:
    """The folder with each diagnosis in a file of its name."""
    for name, diagnosis in jobs.items():
        path = folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(diagnosis.to_json())
    return folder


def fleet_at(folder: Path | str, accounting: Path | None = None, **terms: Any) -> Fleet:
    """The fleet of what lies there."""
    tree = tree_at(str(folder))
    read = read_fleet(tree, analysis.Options())
    known = read_accounting(accounting) if accounting is not None else {}
    return fleet_of(read, Terms(known, armed_h=read.armed_h, **terms), tree.shown)
