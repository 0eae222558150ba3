"""Matrix kernels without counted FLOPs, which a numerator made of the operators that ran leaves out."""

import msgspec
import numpy as np

from diagnose.arrays import Ints
from diagnose.attribution.attribution import cause_of
from diagnose.attribution.causes import CAUSES
from diagnose.facts import Unknown
from diagnose.metrics.measured import Measured
from diagnose.metrics.model.mfu import declared_flops
from diagnose.timeline.kernel_names import AUXILIARY

_BACKWARD = "bwd"


class Uncounted(msgspec.Struct, frozen=True):
    """Matrix kernels of one cause, and of one direction of attention, whose FLOPs are missing in the counted steps.

    Attributes:
        cause: as in the ledger.
        is_backward: whether they are attention's backward pass.
        per_step: how often they run in a step, a pass of several kernels once.
        ns: time of theirs that no earlier kernel covers.
    """

    cause: str
    is_backward: bool
    per_step: float
    ns: int

    @property
    def spoken(self) -> str:
        """A description of them in words."""
        passes = f"attention {'backward' if self.is_backward else 'forward'} passes"
        what = passes if self.cause == "attention" else CAUSES[self.cause].spoken
        return f"{self.per_step:,.3g} {what}"


def uncounted(m: Measured) -> tuple[Uncounted, ...]:
    """The work that MFU by operators does not count, longest first; empty if MFU counts something else.

    Kernels without a launch in the trace are left out: their operators ran before it, as others' kernels run after.
    """
    return m.once(_uncounted)


def _uncounted(m: Measured) -> tuple[Uncounted, ...]:
    gpu, declared = m.timeline.gpu, declared_flops(m)
    if isinstance(declared, Unknown) or declared[0] != "operators" or not len(gpu):
        return ()
    at = np.flatnonzero(gpu.is_compute_bound & (gpu.launcher >= 0) & ~gpu.tagged(AUXILIARY) & ~m.roofline.sized)
    ns = m.roofline.ns[at] if len(at) else at
    at, ns = at[ns > 0], ns[ns > 0]
    keys = [(cause_of(kind), kind.sub == _BACKWARD) for kind in gpu.kinds]
    found = []
    for cause, is_backward in dict.fromkeys(keys):
        alike = np.array([key == (cause, is_backward) for key in keys], bool)
        those = alike[gpu.kind[at]]
        if those.any():
            found.append(Uncounted(cause, is_backward, _per_step(m, at[those]), int(ns[those].sum())))
    return tuple(sorted(found, key=lambda row: -row.ns))


def _per_step(m: Measured, activities: Ints) -> float:
    """Operators that launched them, or kernels of the most frequent name, since one operator may launch several."""
    operator = m.operator[activities]
    names = np.bincount(m.timeline.trace.name[m.timeline.gpu.row[activities]])
    return m.timeline.steps.each(max(len(np.unique(operator[operator >= 0])), int(names.max())))
