"""The optimizer that runs, the faster form that torch.optim has of it, and the kernel time that that form leaves."""

import re

import msgspec
import numpy as np

from diagnose.arrays import Ints, Mask, numbered
from diagnose.facts import DIAGNOSE_RUN, Unknown, Value, another_run, nothing_helps
from diagnose.metrics.kernels.optimizer import optimizer_kind
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS, GPU_CATEGORIES, OPS

_KERNELS = "the optimizer's kernel time"
_STEP_OF = re.compile(r"Optimizer\.step#(.+)\.step$")
_NAMED = (  # operators and kernels of fused updates, which say whose update they are
    (re.compile(r"aten::_fused_adamw_|FusedAdam.*ADAM_MODE\)1"), "AdamW"),
    (re.compile(r"aten::_fused_adam_|FusedAdam.*ADAM_MODE\)0"), "Adam"),
    (re.compile(r"aten::_fused_sgd_|FusedSgd"), "SGD"),
    (re.compile(r"aten::_fused_adagrad_|FusedAdagrad"), "Adagrad"),
    (re.compile(r"multi_tensor_apply.*(LAMB|Lamb)"), "FusedLAMB"),
    (re.compile(r"multi_tensor_apply.*Lion"), "Lion"),
)
_NO_NAME = Unknown(
    "no Optimizer.step range in the trace",
    another_run("step a torch.optim optimizer; a compiled one leaves no range"),
)
_OWN_FORM = nothing_helps("its class is no part of torch.optim")


class FusedForm(msgspec.Struct, frozen=True):
    """A fused update of torch.optim on GPUs.

    Attributes:
        since: the first torch that has it.
        certain: whether to assume it if torch's version is not known, because torch has had it for years.
        least: the part of the kernels' time that it leaves at least, by the accesses per parameter.
        most: the part that it leaves at most.
    """

    since: tuple[int, int]
    certain: bool
    least: float
    most: float


# Accesses of one parameter, all of one width. AdamW in passes: decay 2, first moment 3, second 2 and 3, root 2,
# correction 2, eps 2, update 4, which is 20; fused 4 read and 3 written. SGD in passes: decay 3, momentum 2 and 3,
# update 3; fused 3 and 2; without momentum and decay both are 3. Adagrad: sum 3, root 2, eps 2, rate 2, update 4;
# fused 3 and 2. From torch/optim and ATen's fused kernels.
FUSED = {
    "AdamW": FusedForm((2, 0), True, 7 / 20, 0.7),
    "Adam": FusedForm((2, 0), True, 7 / 20, 0.7),
    "SGD": FusedForm((2, 3), True, 5 / 11, 1.0),
    "Adagrad": FusedForm((2, 13), False, 5 / 13, 0.8),
}
FOREACH = frozenset(
    {*FUSED, "ASGD", "Adadelta", "Adafactor", "Adamax", "NAdam", "RAdam", "RMSprop", "Rprop"}
)  # with the argument foreach; Muon, LBFGS and SparseAdam have none
_LEAST_OF_FOREACH = 0.5  # the same accesses in fewer kernels: small tensors gain, large ones do not; an estimate


@metric("count", needs_gpu=False)
def optimizer_groups(m: Measured) -> Value:
    """Parameter groups of the optimizer, which it updates one after the other."""
    return m.recorded(m.record.number("optimizer.groups"))


@metric("text", needs_gpu=False)
def optimizer_name(m: Measured) -> Value:
    """Class of the optimizer that runs, such as AdamW: by the record, else by its step's range, operators, kernels."""
    recorded = m.record.text("optimizer.class")
    if recorded is not None:
        return recorded.removeprefix("Accelerated")
    return _by_range(m) or _by_update(m) or _NO_NAME


def _by_range(m: Measured) -> str | None:
    """The class whose steps take longest; of one that wraps another (sharded states, SAM), the one that it wraps."""
    trace, rows = m.timeline.trace, m.timeline.rows_matching(r"Optimizer\.step#", *ANNOTATIONS)
    rows = rows[_innermost(trace, rows)]
    if not len(rows):
        return None
    names, which = numbered(trace.name[rows])
    longest = trace.names[names[np.argmax(np.bincount(which, weights=trace.dur[rows]))]]
    named = _STEP_OF.match(longest)
    return named[1] if named else longest.removeprefix("Optimizer.step#")


def _innermost(trace: Trace, rows: Ints) -> Mask:
    """Mask of the ranges in which no other one of them begins."""
    order = rows[np.lexsort((-trace.dur[rows], trace.ts[rows], trace.tid[rows], trace.pid[rows]))]
    after = order[1:]
    same = (trace.tid[after] == trace.tid[order[:-1]]) & (trace.pid[after] == trace.pid[order[:-1]])
    wraps = same & (trace.ts[after] < trace.ends(order[:-1]))
    return ~np.isin(rows, order[:-1][wraps])


def _by_update(m: Measured) -> str | None:
    names = m.timeline.trace.names_of(*OPS, *GPU_CATEGORIES)
    return next((optimizer for pattern, optimizer in _NAMED if any(map(pattern.search, names))), None)


@metric("text")
def optimizer_faster_form(m: Measured) -> Value:
    """The form of the optimizer that torch.optim has and that is faster than what runs: "fused", "foreach", "none".

    Decided by the torch version of the record; if that is not known, a form that torch has had for years is assumed to
    be there.
    """
    kind, name = m.once(optimizer_kind), m.once(optimizer_name)
    if kind == "fused":
        return "none"
    if isinstance(name, Unknown):
        return Unknown(name.because, DIAGNOSE_RUN)
    fused = FUSED.get(str(name))
    if fused is not None and is_since(fused.since, m.record.text("versions.torch"), unknown=fused.certain):
        return "fused"
    return "foreach" if kind == "single" and name in FOREACH else "none"


def is_since(version: tuple[int, int], torch: str | None, unknown: bool) -> bool:
    """Whether this torch is of that version or newer; `unknown` if its version is not given."""
    numbers = re.match(r"(\d+)\.(\d+)", torch or "")
    return unknown if numbers is None else (int(numbers[1]), int(numbers[2])) >= version


@metric("share", _KERNELS)
def least_optimizer_left_share(m: Measured) -> Value:
    """Share of the optimizer's kernels that the faster form leaves at least, by a count of its memory accesses."""
    return _left(m, "least", _LEAST_OF_FOREACH)


@metric("share", _KERNELS)
def most_optimizer_left_share(m: Measured) -> Value:
    """Share of the optimizer's kernels that the faster form leaves at most."""
    return _left(m, "most", 1.0)


def _left(m: Measured, case: str, of_foreach: float) -> Value:
    form = m.once(optimizer_faster_form)
    if form == "fused":
        return float(getattr(FUSED[str(m.once(optimizer_name))], case))
    if form == "foreach":
        return of_foreach
    return form if isinstance(form, Unknown) else Unknown("torch.optim has no faster form of it", _OWN_FORM)
