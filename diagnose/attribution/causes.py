"""All causes that time is attributed to: the class of each, its label, and why it makes a rank late.

This is the one table of causes, for the breakdown, the waterfall, the verdict, the stragglers and the reports. It
imports no arrays, so that a report can read it.
"""

from collections.abc import Iterable, Mapping

import msgspec

from diagnose.diagnosis.postmortem import LatenessCause
from diagnose.diagnosis.terms import CauseClass

EXPOSED = "exposed-communication"
EXPOSED_TRANSFER = "exposed transfer"  # the label of EXPOSED if the waiting is taken out of it
GPU_ACTIVITY_MISSING = "gpu-activity-missing"
MATRIX_OPERATORS, OPTIMIZER_OPERATORS = "operator-compute", "operator-optimizer"
SLOW_PHASE = "recurring-phase"
GRAPH_CAPTURE = "graph-capture"
CORE_WAIT = "core-wait"
UNKNOWN_KIND, UNKNOWN_OPERATORS = "unclassified-kernel", "operator-unknown"
OTHER_KERNELS, OTHER_OPERATORS = "aten_other", "operator-memory"
UNKNOWN_DEVICE = "unknown-device"
NOTHING_RECORDED = "nothing-recorded"
DISTORTED = "distorted"
OTHER_GPU = "other-gpu"
OPERATOR_GAP = "operator-gap"
BEGINNING = "beginning"  # with `waiting_for`: of a step, if what delayed it there lies before the capture
LATE_RANK, _LOW_INTENSITY = "late-rank-", "-low-intensity"


class Cause(msgspec.Struct, frozen=True):
    """One cause of the breakdown, or one part of the waterfall.

    Attributes:
        name: as the breakdown spells it.
        class_: what it counts in, for the breakdown, the facts, the verdict and the stragglers alike.
        label: for people.
        phrase: the same within a sentence, such as "2 ms more of {phrase}", if the label does not fit.
        observed: whether the trace shows what the device waits for. If too much is not observed nothing is decided.
        per_launch: host work that grows with the number of kernels.
        lateness: why a rank is late that spends more on it than the others, if its class does not imply it.
    """

    name: str
    class_: CauseClass
    label: str
    phrase: str = ""
    observed: bool = True
    per_launch: bool = False
    lateness: LatenessCause | None = None

    @property
    def spoken(self) -> str:
        """The cause's words within a sentence."""
        return self.phrase or self.label


def low_intensity(matrix: str) -> str:
    """Name of the cause for kernels of a matrix cause that are memory-bound."""
    return matrix + _LOW_INTENSITY


def is_low_intensity(cause: str) -> bool:
    """Whether the cause is memory-bound matrix kernels."""
    return cause.endswith(_LOW_INTENSITY)


def below_peak(matrix: str) -> str:
    """Name of the cause for time that kernels of a matrix cause lose below the device's peak."""
    return f"{matrix}-below-peak"


def below_achievable(matrix: str) -> str:
    """Name of the cause for time that they lose below the fastest product measured on such a device."""
    return f"{matrix}-below-achievable"


def not_counted(matrix: str) -> str:
    """Name of the cause for time of its kernels whose FLOPs are not known."""
    return f"{matrix}-not-counted"


def waiting_for(class_: str) -> str:
    """Name of the cause of waiting for a rank that is late by a class, or that began the step later (BEGINNING)."""
    return LATE_RANK + class_


_MATRIX = (
    Cause("gemm", "compute", "matrix products"),
    Cause("conv", "compute", "convolutions"),
    Cause("attention", "compute", "attention"),
    Cause("inductor-template", "compute", "compiled matrix products"),
    Cause(MATRIX_OPERATORS, "compute", "matrix operators"),
)
_DIVIDED_MATRIX = (
    *(Cause(low_intensity(row.name), "memory", f"low-intensity {row.label}") for row in _MATRIX),
    *(Cause(below_peak(row.name), "compute", f"{row.label} below the peak") for row in _MATRIX),
    *(Cause(below_achievable(row.name), "compute", f"{row.label} below what is achievable") for row in _MATRIX),
    *(Cause(not_counted(row.name), "compute", f"{row.label} whose FLOPs are not known") for row in _MATRIX),
)
_OTHER_WORK = (
    Cause("activation", "memory", "activation"),
    Cause(OTHER_KERNELS, "memory", "other PyTorch kernels"),
    Cause("clip", "memory", "gradient clipping"),
    Cause("copy", "memory", "copy and cast kernels"),
    Cause("dropout", "memory", "dropout"),
    Cause("elementwise", "memory", "elementwise"),
    Cause("embedding", "memory", "embedding"),
    Cause("inductor", "memory", "compiled kernels"),
    Cause("loss", "memory", "loss"),
    Cause("moe", "memory", "expert routing"),
    Cause("norm", "memory", "normalisation"),
    Cause(OPTIMIZER_OPERATORS, "memory", "optimizer operators"),
    Cause("optimizer", "memory", "optimizer"),
    Cause("pool", "memory", "pooling and resizing"),
    Cause("quant", "memory", "quantisation"),
    Cause("reduce", "memory", "reductions"),
    Cause("rope", "memory", "rotary embedding"),
    Cause("softmax", "memory", "softmax"),
    Cause("sort", "memory", "sorting and scans"),
    Cause("triton", "memory", "Triton kernels"),
    Cause(UNKNOWN_KIND, "memory", "kernels of unknown kind"),
)
_OPERATORS = (  # but for matrix operators, by `data/operator_kinds.toml`
    Cause("operator-random", "compute", "random numbers"),
    Cause("operator-arithmetic", "compute", "sorting, searching and transforms"),
    Cause("operator-elementwise", "memory", "element-wise operators"),
    Cause("operator-copy", "memory", "copies and casts by operators"),
    Cause("operator-indexing", "memory", "indexing"),
    Cause("operator-reduction", "memory", "reductions, norms and losses"),
    Cause(OTHER_OPERATORS, "memory", "other operators"),
    Cause(UNKNOWN_OPERATORS, "memory", "operators of unknown kind"),
    Cause("operator-allocation", "host", "allocation by operators"),
    Cause("operator-input", "data", "text, reading and decoding by operators"),
)
_EXPOSED = Cause(EXPOSED, "communication", "exposed communication")
_WAITING = (
    Cause(
        waiting_for(BEGINNING),
        "communication",
        "waiting for a rank that began the step later",
        phrase="waiting for ranks that began the step later",
    ),
    Cause(
        waiting_for("communication"),
        "communication",
        "waiting for a rank late in communication",
        phrase="waiting for ranks late in communication",
    ),
    Cause(waiting_for("compute"), "compute", "waiting for a rank with more or slower kernels"),
    Cause(waiting_for("data"), "data", "waiting for a rank late for data"),
    Cause(waiting_for("host"), "host", "waiting for a rank late in its host code"),
    Cause(waiting_for("memory"), "memory", "waiting for a rank with more or slower kernels"),
    Cause(waiting_for("unexplained"), "unexplained", "waiting for a rank late for no known reason", observed=False),
)
_COPIES = (
    Cause("copy-HtoD", "data", "copies to the device"),
    Cause("copy-DtoH", "host", "copies to the host"),
    Cause("copy-DtoD", "memory", "device-to-device copies"),
    Cause("copy-PtoP", "communication", "copies between devices"),
    Cause("copy-unknown", "memory", "copies of unknown direction"),
    Cause("memset", "memory", "clearing memory"),
)
_IDLE = (
    Cause(CORE_WAIT, "host", "waiting for a CPU core", lateness="cores"),
    Cause(GRAPH_CAPTURE, "host", "graph capture", phrase="recording GPU graphs"),
    Cause("data-wait", "data", "data wait", phrase="waiting for data"),
    Cause("host-to-device", "data", "copy calls to the device"),
    Cause("allocation", "host", "allocation of device memory"),
    Cause("host-allocation", "host", "allocation of pinned host memory", phrase="allocation of pinned memory"),
    Cause("compile", "host", "compiling and loading kernels", phrase="compilation"),
    Cause("gc", "host", "garbage collection", lateness="gc"),
    Cause(
        "logging",
        "host",
        "logging, evaluation and saving",
        phrase="saving, logging or evaluating",
        lateness="checkpoint",
    ),
    Cause(OTHER_GPU, "communication", "waiting for another GPU of the process"),
    Cause("sync", "host", "synchronisation"),
    Cause("optimizer-host", "host", "optimizer host code"),
    Cause(OPERATOR_GAP, "host", "long gaps inside one operator"),
    Cause("dispatch", "host", "operator dispatch", per_launch=True),
    Cause("python", "host", "Python", per_launch=True),
    Cause("launch-latency", "host", "launch latency", per_launch=True),
    Cause("kernel-gap", "host", "gaps between queued kernels", per_launch=True),
    Cause("queued-on-idle-device", "unexplained", "queued while the device idles", observed=False),
    Cause("untraced", "host", "untraced host time", phrase="host time that the trace does not show", observed=False),
)
_AROUND_OPERATORS = (  # of a step without a GPU
    Cause("autograd-engine", "host", "autograd's engine before and after the backward pass"),
    Cause("untraced-operator", "unexplained", "untraced time inside one operator", observed=False),
    Cause("untraced-step", "unexplained", "untraced time", phrase="time that the trace does not show", observed=False),
)
_OVER_A_PERIOD = (
    Cause(SLOW_PHASE, "host", "what one step in several does beyond the others", phrase="a phase that comes again"),
)
_MFU_PARTS = (
    Cause("model-flops", "compute", "model FLOPs at the peak (MFU)"),
    Cause("padding", "compute", "padding (in MFU)"),
    Cause("recompute", "compute", "recomputed activations"),
    Cause("lower-precision", "compute", "precision slower than the peak's"),
    Cause("below-datasheet", "compute", "datasheet peak out of reach"),
)
_MISSING = (
    Cause(GPU_ACTIVITY_MISSING, "unexplained", "GPU activity missing", observed=False),
    Cause(UNKNOWN_DEVICE, "unexplained", "activity of an unknown device", observed=False),
    Cause(NOTHING_RECORDED, "unexplained", "nothing was recorded", observed=False),
    Cause(DISTORTED, "unexplained", "distorted by the profiler", observed=False),
)


def _table(*groups: Iterable[Cause]) -> dict[str, Cause]:
    return {row.name: row for rows in groups for row in rows}


CAUSES: Mapping[str, Cause] = _table(
    _MATRIX,
    _DIVIDED_MATRIX,
    _OTHER_WORK,
    _OPERATORS,
    (_EXPOSED,),
    _WAITING,
    _COPIES,
    _IDLE,
    _AROUND_OPERATORS,
    _OVER_A_PERIOD,
    _MFU_PARTS,
    _MISSING,
)
MATRIX = tuple(row.name for row in _MATRIX)
COPIES = tuple(row.name for row in _COPIES)
WAITING = tuple(row.name for row in _WAITING)
IDLE = tuple(row.name for row in _IDLE)
AROUND_OPERATORS = tuple(row.name for row in _AROUND_OPERATORS)
IDLE_FOR_INPUT = tuple(row.name for row in _IDLE if row.class_ == "data")
UNRECORDED = ("data-wait",)  # the profiler does not lengthen it: loading runs no operators of the step
BEFORE_A_LAUNCH = ("dispatch", "optimizer-host", "launch-latency", "kernel-gap")  # what a launch costs the device
ON_A_CORE = ("python", "dispatch", "optimizer-host", OPERATOR_GAP, "gc", "logging", "compile", GRAPH_CAPTURE)
"""Causes in which the threads of the step compute on the host, without its operators and the loading."""
OPERATORS = (MATRIX_OPERATORS, *(row.name for row in _OPERATORS))
"""The work of a step without a GPU, but for its optimizer's."""
ON_A_CORE_OF_HOST = (*ON_A_CORE, "autograd-engine", "untraced-operator", *OPERATORS, OPTIMIZER_OPERATORS)
"""The same of a step without a GPU, with its operators."""
HOST_WORK = ("dispatch", "python", "autograd-engine", "optimizer-host", OPTIMIZER_OPERATORS, *OPERATORS)
PER_LAUNCH = tuple(row.name for row in CAUSES.values() if row.per_launch)
OTHER_THAN_MATRIX = tuple(cause for cause in OPERATORS if cause != MATRIX_OPERATORS)
HOST_GROUPS: Mapping[str, tuple[str, ...]] = {
    "host-work": HOST_WORK,
    "per-launch": PER_LAUNCH,
    "operators": OPERATORS,
    "other-operators": OTHER_THAN_MATRIX,
    "late-rank": WAITING,
}
"""Causes that a rule may name together: what the host works on in a step, what grows with its
launches, the operators of a step without a GPU, those of them that are no products, and waiting for a rank that is
late.
"""
UNKNOWN_KINDS = (UNKNOWN_KIND, OTHER_KERNELS, UNKNOWN_OPERATORS, OTHER_OPERATORS)
"""They are booked as memory traffic and may as well compute: none of them carries a class."""
UNTRACED = ("untraced", "untraced-step", "untraced-operator")  # the host's, which samples of the stack may explain
UNOBSERVED = tuple(row.name for row in CAUSES.values() if not row.observed)
WITHOUT_KERNELS = frozenset({*IDLE, EXPOSED, *WAITING})  # the device idles or communicates alone

LATENESS: Mapping[LatenessCause, str] = {
    "data": "because of its data",
    "host": "because of its host code",
    "slower_kernels": "because its kernels are slower",
    "more_work": "because it has more work",
    "gc": "because of garbage collection",
    "checkpoint": "because of its saving, logging or evaluating",
    "cores": "because it waits for a CPU core",
    "link": "because its link is slower",
    "unknown": "for an unknown reason",
}
LATE_BY: Mapping[str, str] = {
    "data": "its data",
    "host": "its host code",
    "slower_kernels": "slower kernels",
    "more_work": "more work",
    "gc": "garbage collection",
    "checkpoint": "its saving, logging or evaluating",
    "cores": "waiting for a CPU core",
    "link": "a slower link",
    "unknown": "an unknown reason",
}
"""What makes a rank late, as a thing."""
_LATENESS_OF_CLASS: Mapping[CauseClass, LatenessCause] = {"data": "data", "host": "host"}


def class_of(cause: str) -> CauseClass:
    """The class that a cause counts in.

    Raises:
        KeyError: the table has no such cause.
    """
    return CAUSES[cause].class_


def is_matrix(cause: str) -> bool:
    """Whether the cause is matrix kernels, including the memory-bound ones."""
    return cause.removesuffix(_LOW_INTENSITY) in MATRIX


def lateness_cause_of(cause: str) -> LatenessCause:
    """The lateness of a rank that spends more than the others on this cause, which is not a kernel's."""
    row = CAUSES[cause]
    return row.lateness or _LATENESS_OF_CLASS.get(row.class_, "unknown")
