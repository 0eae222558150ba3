"""The machine over a whole run: the typical and the worst value of each quantity, and what is not known."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from diagnose.series.machine.findings import GpuChange, HeldDown, MachineQuantity, MachineReport
from diagnose.series.machine.gpu_changes import WORDS, changes, compared
from diagnose.series.machine.quantities import QUANTITIES, Quantity
from diagnose.series.machine.readings import MachineReadings
from diagnose.series.not_told import NotTold
from diagnose.trace.readings import spoken_reasons

_NO_READINGS = "the step logs hold no readings of the machine"
_ANOTHER = "another run with diagnose run --arm, of some seconds at least"
_NO_GPU = "nothing, where the job uses no NVIDIA GPU; else a run on a host with its driver's library"


def machine_over_run(machines: Sequence[MachineReadings]) -> MachineReport:
    """Readings of the machine over the run, of all ranks."""
    readings = sum(map(len, machines))
    if not readings:
        none = NotTold(because=next(map(_why_none, machines), _NO_READINGS), capture_next=_ANOTHER)
        return MachineReport(
            readings=0, quantities=(), held_down=None, gpu_changes=None, gpu_compared=(), not_told=(none,)
        )
    quantities = tuple(one for of in QUANTITIES if (one := _quantity(of, machines)) is not None)
    again = frozenset[str]().union(*(compared(machine.of_gpu) for machine in machines))
    return MachineReport(
        readings=readings,
        quantities=quantities,
        held_down=_held_down(machines),
        gpu_changes=_gpu_changes(machines) if again else None,
        gpu_compared=tuple(words for name, words in WORDS.items() if name in again),
        not_told=tuple(_unknown(machines)),
    )


def _gpu_changes(machines: Sequence[MachineReadings]) -> tuple[GpuChange, ...]:
    """Changes of the GPUs of all ranks, the gravest first."""
    found = [change for machine in machines for change in changes(machine.rank, machine.of_gpu, len(machines) > 1)]
    gravest = list(WORDS.values())
    return tuple(sorted(found, key=lambda one: (gravest.index(one.what), one.rank, one.step)))


def _quantity(of: Quantity, machines: Sequence[MachineReadings]) -> MachineQuantity | None:
    """The quantity over the run; None if no rank has read it."""
    up = of.worse or 1
    found = [(machine, machine.values[of.name]) for machine in machines if of.name in machine.values]
    found = [(machine, values) for machine, values in found if np.isfinite(values).any()]
    if not found:
        return None
    machine, values = max(found, key=lambda one: np.nanmax(up * one[1]))
    at = int(np.nanargmax(up * values))
    typical, worst = float(np.nanmedian(np.concatenate([values for _, values in found]))), float(values[at])
    end, step = ("most" if up > 0 else "least"), int(machine.step[at])
    on = f" on rank {machine.rank}" if len(machines) > 1 else ""
    says = f"{of.what}: {of.spoken(typical)}, {of.spoken(worst)} at {end} (by step {step:,}{on})"
    return MachineQuantity(
        what=of.what,
        unit=of.unit,
        typical=typical,
        worst=worst,
        worst_is=end,
        worst_step=step,
        worst_rank=machine.rank,
        says=says,
    )


def _held_down(machines: Sequence[MachineReadings]) -> tuple[HeldDown, ...] | None:
    """Reasons that held clocks down, the largest share first; of each, the rank with the largest share."""
    most: dict[str, HeldDown] = {}
    told = False
    for machine in machines:
        known = [reasons for reasons in machine.held_by if reasons is not None]
        told = told or bool(known)
        counted = Counter(words for reasons in known for words in spoken_reasons(sorted(set(reasons))))
        for words, count in counted.items():
            one = HeldDown(by=words, share=count / len(known), rank=machine.rank)
            most[words] = max(most.get(words, one), one, key=lambda each: each.share)
    return tuple(sorted(most.values(), key=lambda one: -one.share)) if told else None


def _unknown(machines: Sequence[MachineReadings]) -> Iterator[NotTold]:
    reasons: dict[str, list[int]] = {}
    for machine in machines:
        if machine.why_no_gpu:
            reasons.setdefault(machine.why_no_gpu, []).append(machine.rank)
    for why, ranks in reasons.items():
        of = "of the GPU" if len(ranks) == len(machines) else f"of the GPU of rank {', '.join(map(str, ranks[:8]))}"
        yield NotTold(because=f"{of}: {why}", capture_next=_NO_GPU)
    of_gpu = [one for one in machines if len(one) and not one.why_no_gpu and not compared(one.of_gpu)]
    if of_gpu:
        of = f"of links and errors of the GPU of rank {', '.join(str(one.rank) for one in of_gpu[:8])}"
        why = "they were read once at most, or the driver does not tell them"
        yield NotTold(because=f"{of}: {why}", capture_next=_ANOTHER)
    silent: dict[str, list[str]] = {}
    for machine in machines:
        if machine.why_none or not len(machine):
            silent.setdefault(_why_none(machine), []).append(str(machine.rank))
    for why, told in silent.items():
        yield NotTold(because=f"of rank {', '.join(told[:8])}: {why}", capture_next=_ANOTHER)


def _why_none(machine: MachineReadings) -> str:
    none = "no readings any more" if len(machine) else _NO_READINGS
    return f"{none}: {machine.why_none}" if machine.why_none else none
