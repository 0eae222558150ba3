"""The lines of a textbook beside a forecast: bytes of its collectives, intensity, iron law, and what changes move."""

from collections.abc import Iterator

import msgspec

from diagnose.commands.fit.adapters import trained_share
from diagnose.commands.fit.advice import changes
from diagnose.commands.fit.part_classes import seconds_by_class, seconds_by_term
from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.stage_time import board_of, stage_parameters, stages
from diagnose.commands.fit.step_time import PredictedStep, predict_step
from diagnose.commands.fit.transfers import gathers
from diagnose.diagnosis.iron_law import FORMULA
from diagnose.errors import UserError
from diagnose.formulas.collectives import wire_bytes
from diagnose.formulas.mfu_words import mfu_scale, mfu_word
from diagnose.formulas.roofline import ridge
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.remedies import MemoryRemedy
from diagnose.report.text.page import Page

_PASSES = 3  # of a training step over each weight: forward, and backward for both gradients
_NAMES = {"allreduce": "all-reduce", "reducescatter": "reduce-scatter", "allgather": "all-gather"}
_FORMULAS = {"allreduce": "2(N-1)/N x S", "reducescatter": "(N-1)/N x S", "allgather": "(N-1)/N x S"}
_LEAST_MOVED = 0.01  # of the step: what a change moves by less is not told
_MOVES_SHOWN = 5


class RingCollective(msgspec.Struct, frozen=True, kw_only=True):
    """A data-parallel collective: each of `ranks` sends `wire_bytes` of a message, `times` in a step."""

    kind: str
    what: str
    formula: str
    ranks: int
    message_bytes: float
    wire_bytes: float
    times: int


class Move(msgspec.Struct, frozen=True, kw_only=True):
    """One change of the job: what it adds to the step at the same batch, and to the term that it moves most."""

    change: str
    term: str
    term_s: float
    step_s: float


class Textbook(msgspec.Struct, frozen=True, kw_only=True):
    """Quantities of a textbook for a predicted step of one GPU.

    `flops_per_byte` are the model's FLOPs over the bytes of GPU memory that the step moves at least: each weight once
    for each pass of a micro-batch, and what its memory-bound parts move. Above `ridge_flops_per_byte` arithmetic bounds
    it, below the memory. `terms_s` are the step's seconds by the term of `iron_law`. `mfu_word` is "" if the words
    are not about such a model.
    """

    collectives: tuple[RingCollective, ...]
    flops_per_byte: float
    ridge_flops_per_byte: float
    iron_law: str
    terms_s: dict[str, float]
    moves: tuple[Move, ...]
    mfu_word: str


def textbook_of(step: PredictedStep, stack: StackRates, remedies: tuple[MemoryRemedy, ...]) -> Textbook:
    """The textbook's quantities of a predicted step; `remedies` are the changes that free memory."""
    plan, board = step.plan, board_of(step.plan)
    return Textbook(
        collectives=tuple(_collectives(plan)),
        flops_per_byte=step.model_flops / plan.gpus / _moved_bytes(step, board.memory_bytes_per_s),
        ridge_flops_per_byte=ridge(board.peak_flops, 1e9 * (plan.gpu.hbm_gbs or 0.0)),
        iron_law=FORMULA,
        terms_s=seconds_by_term(step),
        moves=tuple(sorted(_moves(step, stack, remedies), key=lambda move: move.step_s)),
        mfu_word=mfu_word(step.mfu, plan.model.parameters, plan.precision.compute_bytes < 4),
    )


def _parameters(plan: JobPlan) -> float:
    """Parameters of a rank of the largest stage before ZeRO divides them."""
    return max(stage_parameters(plan, stage) for stage in set(stages(plan)))


def _collectives(plan: JobPlan) -> Iterator[RingCollective]:
    """The collectives of gradients and weights, of the stage that has most."""
    zero, ranks, parameters = plan.sharding.zero, plan.sharding.data_ranks, _parameters(plan)
    if ranks == 1:
        return
    gradients = parameters * trained_share(plan) * plan.precision.gradient_bytes
    each = plan.accumulation if zero >= 2 else 1
    yield _collective("reducescatter" if zero else "allreduce", "gradients", gradients, ranks, each)
    if zero:
        weights = parameters * plan.precision.compute_bytes
        yield _collective("allgather", "weights", weights, ranks, gathers(plan) * plan.accumulation or 1)


def _collective(kind: str, what: str, message: float, ranks: int, times: int) -> RingCollective:
    return RingCollective(
        kind=_NAMES[kind],
        what=what,
        formula=_FORMULAS[kind],
        ranks=ranks,
        message_bytes=message,
        wire_bytes=wire_bytes(kind, message, ranks),
        times=times,
    )


def _moved_bytes(step: PredictedStep, memory_bytes_per_s: float) -> float:
    plan = step.plan
    bound_s = seconds_by_class(step).get("memory", 0.0)
    weights = _PASSES * plan.accumulation * _parameters(plan) * plan.precision.compute_bytes
    return bound_s * memory_bytes_per_s + weights


def _moves(step: PredictedStep, stack: StackRates, remedies: tuple[MemoryRemedy, ...]) -> Iterator[Move]:
    before = seconds_by_term(step)
    for name, plan, largest in changes(step.plan, stack, remedies):
        if plan.micro_batch > largest:
            continue
        try:
            changed = predict_step(plan, stack)
        except UserError:  # the board has no such units
            continue
        moved = {term: seconds - before[term] for term, seconds in seconds_by_term(changed).items()}
        term = max(moved, key=lambda each: abs(moved[each]))
        if abs(moved[term]) >= _LEAST_MOVED * step.step_s:
            yield Move(change=name, term=term, term_s=moved[term], step_s=changed.step_s - step.step_s)


def print_textbook(page: Page, book: Textbook) -> None:
    """Prints the quantities, a line for each."""
    for place, text in enumerate(_lines(book)):
        shown = text.replace("·", "*") if page.ascii_only else text
        page.paragraph(shown, label="" if place else "textbook:")


def _lines(book: Textbook) -> Iterator[str]:
    for each in book.collectives:
        often = "" if each.times == 1 else f", {each.times} times a step"
        yield (
            f"{each.kind} of {each.what}: {each.formula} = {_gb(each.wire_bytes)} sent by each of"
            f" N = {each.ranks} ranks, S = {_gb(each.message_bytes)}{often}"
        )
    bound = "arithmetic" if book.flops_per_byte > book.ridge_flops_per_byte else "memory"
    yield (
        f"intensity: at most {book.flops_per_byte:,.0f} FLOP/byte, ridge point {book.ridge_flops_per_byte:,.0f}:"
        f" {bound} bounds the step's work"
    )
    whole = sum(book.terms_s.values())
    terms = ", ".join(f"{term} {100 * seconds / whole:.0f} %" for term, seconds in book.terms_s.items())
    yield f"iron law, {book.iron_law}: {terms}"
    moves = [f"{move.term} {_ms(move.term_s)} by {move.change}" for move in book.moves[:_MOVES_SHOWN]]
    if moves:
        yield f"moved at this batch: {', '.join(moves)}"
    if book.mfu_word:
        yield f"MFU: {book.mfu_word}; {mfu_scale()}"


def _gb(size: float) -> str:
    return f"{size / 1e9:,.2f} GB"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:+,.0f} ms"
