"""A step with fewer collectives of a kind: without their transfers, their waits and the host's work around them."""

from collections.abc import Iterable, Mapping

import numpy as np

from diagnose import intervals as iv
from diagnose.arrays import Coded
from diagnose.attribution.causes import (
    AROUND_OPERATORS,
    CORE_WAIT,
    EXPOSED,
    ON_A_CORE,
    ON_A_CORE_OF_HOST,
    OPERATORS,
    WAITING,
)
from diagnose.attribution.host_time import host_time
from diagnose.attribution.idle import Host
from diagnose.facts import Unknown
from diagnose.intervals import Intervals
from diagnose.metrics.communication.collective_work import WORKS, CollectiveWork
from diagnose.metrics.communication.contention import overlap_slowdown_factor
from diagnose.metrics.measured import Measured
from diagnose.predict.replay import StepChange
from diagnose.rule.remedy import Case

Parts = dict[str, float]
_OF_HOST = frozenset((*ON_A_CORE_OF_HOST, *AROUND_OPERATORS))  # what goes with the ranges it lies in


def fewer_collectives(m: Measured, name: str, left: float, case: Case) -> StepChange:
    """The change that leaves this part of the collectives, a name of `WORKS`."""
    work = m.once(WORKS[name])
    gone = _gone_on_device(m, work, case) if m.timeline.has_gpu else _gone_on_host(m, work, case)
    factors = {cause: 1 - (1 - left) * part for cause, part in gone.items() if part}
    sending = factors.pop(EXPOSED, 1.0)
    return StepChange(kernels=_packing(m, work, left, case), host=factors, communication=sending)


def _gone_on_host(m: Measured, work: CollectiveWork, case: Case) -> Parts:
    """The part of each cause of a step without a GPU that the collectives take.

    At best ranks wait for each other as many times less often, and the threads that send keep no core from those that
    compute beside them.
    """
    pieces = {cause: m.attribution.pieces(cause) for cause in m.attribution.causes}
    if case == "worst":
        sending = iv.union(work.packs, work.alone)
        return {**_parts(pieces, _OF_HOST, work.packs), **_parts(pieces, (EXPOSED,), sending)}
    sending, beside = iv.union(work.hooks, work.sent), iv.subtract(work.sent, work.hooks)
    gone = {**_parts(pieces, _OF_HOST | {CORE_WAIT}, work.hooks), **_parts(pieces, (EXPOSED, *WAITING), sending)}
    slowed = overlap_slowdown_factor(m)
    longer = 0.0 if isinstance(slowed, Unknown) else max(1 - 1 / float(slowed), 0.0)
    gone |= {cause: gone[cause] + longer * part for cause, part in _parts(pieces, OPERATORS, beside).items()}
    if CORE_WAIT in gone:
        computes = iv.intersect(m.attribution.pieces(*_OF_HOST), beside)
        part = iv.total(computes) / max(iv.total(pieces[CORE_WAIT]), 1)
        gone[CORE_WAIT] = min(gone[CORE_WAIT] + part, 1.0)
    return gone


def _gone_on_device(m: Measured, work: CollectiveWork, case: Case) -> Parts:
    """The part of each cause of the host beside a GPU, and of the exposed communication."""
    pieces = host_time(Host(m.timeline), m.timeline.steps.host)
    gone = _parts(pieces, ON_A_CORE, work.packs if case == "worst" else work.hooks)
    return gone | _parts({EXPOSED: m.attribution.pieces(EXPOSED)}, (EXPOSED,), work.sent)


def _parts(pieces: Mapping[str, Intervals], causes: Iterable[str], instants: Intervals) -> Parts:
    known = {cause: pieces[cause] for cause in causes if cause in pieces}
    return {cause: iv.total(iv.intersect(of, instants)) / max(iv.total(of), 1) for cause, of in known.items()}


def _packing(m: Measured, work: CollectiveWork, left: float, case: Case) -> Coded | None:
    """Factor of each activity: kernels and copies with which the device packs and unpacks."""
    gpu = m.timeline.gpu
    packs = ~gpu.is_communication & iv.holds(work.packs if case == "worst" else work.hooks, gpu.launch_start)
    return Coded.ones(len(gpu)).times(left, packs) if np.any(packs) else None
