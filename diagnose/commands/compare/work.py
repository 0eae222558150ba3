"""Whether two runs do the same work, and the measure by which they are comparable if their steps differ."""

from dataclasses import dataclass

from diagnose.commands.compare.answer import Changed
from diagnose.commands.compare.side import Side
from diagnose.facts import Scalar
from diagnose.judge.run_pair import differ, work_ratio

STEP_TIME = "step time"
PER_GPU = " per GPU"
_MODEL = {  # paths of the record: what the model is called there
    "model.model_type": "model type",
    "model.parameters": "parameters",
    "model.config.num_hidden_layers": "layers",
    "model.config.n_layer": "layers",
    "model.config.hidden_size": "hidden size",
    "model.config.n_embd": "hidden size",
    "model.config.vocab_size": "vocabulary",
}
_SAME_FLOPS = 0.34  # recomputation alone adds a third
_KINDS = ("conv", "gemm")
_MUCH, _NONE = 0.1, 0.005  # of the kernel time


@dataclass(frozen=True)
class ComparedWork:
    """Comparison of the work of a step.

    Attributes:
        same: whether both do the same; None if it is unknown.
        why_not: why the runs are not comparable; "" if they are.
        of: the quantity that is compared: step time, or a rate.
        ratio: work of a step after over that before, of the job, or of a rank if the rate is per GPU.
        changed: what differs.
        notes: notes for the reader.
    """

    same: bool | None
    why_not: str = ""
    of: str = STEP_TIME
    ratio: float = 1.0
    changed: tuple[Changed, ...] = ()
    notes: tuple[str, ...] = ()


def work_of(before: Side, after: Side) -> ComparedWork:
    """Compare the work of both sides."""
    model = _model_changes(before, after)
    changed = (*model, *_size_changes(before, after))
    if model:
        named = ", ".join(f"{one.what} {_said(one.before)} and {_said(one.after)}" for one in model)
        return ComparedWork(False, f"the model is another one: {named}", changed=changed)
    if None not in (before.trains, after.trains) and before.trains != after.trains:
        return ComparedWork(False, "one of the runs trains and the other does not", changed=changed)
    by_rate = work_ratio(before, after)
    return _by_rate(*by_rate, before, after, changed) if by_rate else _by_trace(before, after, changed)


def _by_rate(unit: str, by_rank: float, before: Side, after: Side, changed: tuple[Changed, ...]) -> ComparedWork:
    """Compare step times if a step is the same work of the same ranks, else rates; by rank if their number differs."""
    if not differ(before.ranks or 1, after.ranks or 1):
        same = not differ(1.0, by_rank)
        return ComparedWork(same, of=STEP_TIME if same else unit, ratio=1.0 if same else by_rank, changed=changed)
    return ComparedWork(False, of=unit + PER_GPU, ratio=by_rank, changed=changed)


def _by_trace(before: Side, after: Side, changed: tuple[Changed, ...]) -> ComparedWork:
    """Compare by FLOPs of the operators and the kinds of kernels, if neither tokens nor samples are known."""
    if differ(before.ranks or 1, after.ranks or 1) and before.ranks and after.ranks:
        return ComparedWork(
            False, "their numbers of ranks differ, and the tokens of a step are not known", changed=changed
        )
    kind = _foreign_kind(before, after)
    if kind:
        return ComparedWork(False, f"{kind} kernels run on one side alone: the work is another one", changed=changed)
    if not before.flops_per_step or not after.flops_per_step:
        note = "nothing says how much work a step is: it is taken to be the same on both sides"
        return ComparedWork(None, changed=changed, notes=(note,))
    factor = after.flops_per_step / before.flops_per_step
    if not 1 / (1 + _SAME_FLOPS) <= factor <= 1 + _SAME_FLOPS:
        why = f"operators of a step of B compute {factor:.3g} times the FLOPs of one of A, and neither tokens nor "
        return ComparedWork(False, why + "samples of a step are known", changed=changed)
    same = not differ(1.0, factor)
    note = "the tokens of a step are not known: the operators that ran compute " + (
        "the same on both sides" if same else f"{factor:.3f} times as much in B as in A"
    )
    return ComparedWork(True if same else None, changed=changed, notes=(note,))


def _model_changes(before: Side, after: Side) -> list[Changed]:
    """Differences of the model between both captures' records."""
    pairs = ((name, _recorded(before, path), _recorded(after, path)) for path, name in _MODEL.items())
    return [
        Changed(what=name, before=one, after=other)
        for name, one, other in pairs
        if one is not None and other is not None and differ(one, other)
    ]


def _recorded(side: Side, path: str) -> Scalar | None:
    return side.setup.get(path, side.parameters if path == "model.parameters" else None)


def _size_changes(before: Side, after: Side) -> list[Changed]:
    pairs: tuple[tuple[str, Scalar | None, Scalar | None], ...] = (
        ("device", before.device or None, after.device or None),
        ("ranks", before.ranks, after.ranks),
        ("tokens of a step of a rank", before.tokens_per_step, after.tokens_per_step),
        ("samples of a step of a rank", before.samples_per_step, after.samples_per_step),
        ("precision", before.seen.get("precision"), after.seen.get("precision")),
    )
    return [
        Changed(what=name, before=one, after=other)
        for name, one, other in pairs
        if one is not None and other is not None and differ(one, other)
    ]


def _foreign_kind(before: Side, after: Side) -> str:
    """A kind of matrix work that is a large part of one side and absent on the other; "" if there is none."""
    one, other = _kinds(before), _kinds(after)
    for kind in _KINDS if one and other else ():
        if max(one[kind], other[kind]) > _MUCH and min(one[kind], other[kind]) < _NONE:
            return kind
    return ""


def _kinds(side: Side) -> dict[str, float]:
    """The share of the time in compute and memory causes that each kind has; empty without such causes."""
    busy = sum(cause.ns for cause in side.causes if cause.class_ in ("compute", "memory"))
    if not busy or side.step != "device step":
        return {}
    return {kind: sum(c.ns for c in side.causes if c.cause.split("-low")[0] == kind) / busy for kind in _KINDS}


def _said(value: Scalar | None) -> str:
    return f"{value:,.6g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
