"""The best MFU by model and number of GPUs, and what bounds each job: a table to read before a job is planned."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from diagnose.attribution.leading import leader
from diagnose.commands.fit.boards import GPUS_PER_NODE, fewest_nodes, gpu_named
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.part_classes import class_of, seconds_by_class
from diagnose.commands.fit.planning import best_step
from diagnose.commands.fit.reasons import division, percent
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.diagnosis.answer import Answer
from diagnose.diagnosis.terms import CauseClass
from diagnose.errors import UserError, WrongUsage
from diagnose.report.text.page import Page

MODELS = ("1b", "3b", "8b", "70b")
"""The models that are looked at where nobody names any."""
COUNTS = tuple(GPUS_PER_NODE << power for power in range(6))
_SHORT = {"communication": "comm."}
_CLASSES: tuple[CauseClass, ...] = ("data", "host", "communication", "compute", "memory", "unexplained")


class HeatCell(msgspec.Struct, frozen=True, kw_only=True):
    """The fastest configuration of a model on so many GPUs.

    `bound` is the class that leads its step, as a diagnosis names it, and `largest_loss` the largest part of the step
    that is no arithmetic, with its share. All are null if nothing runs, for the reason `because`.
    """

    gpus: int
    nodes: int | None = None
    division: str | None = None
    micro_batch: int | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu_share: float | None = None
    bound: CauseClass | None = None
    largest_loss: str | None = None
    largest_loss_share: float | None = None
    because: str = ""


class HeatRow(msgspec.Struct, frozen=True, kw_only=True):
    """A model with a cell for each number of GPUs."""

    model: str
    parameters: int
    cells: tuple[HeatCell, ...]


class HeatMap(Answer, frozen=True, kw_only=True):
    """The best MFU of each model on each number of GPUs of one kind, in so many nodes."""

    schema_version: int = 1
    gpu: str
    counts: tuple[int, ...]
    nodes: tuple[int, ...]
    rows: tuple[HeatRow, ...]


def heat_map_of(given: Mapping[str, Any]) -> HeatMap:
    """The map of the models and numbers of GPUs that the options name, else of the usual ones.

    Raises:
        UserError: a model is not known, or nothing runs at all.
    """
    for name in ("nodes", "dp"):
        if given[name] is not None:
            raise WrongUsage(
                f"--{name} is for one number of GPUs", why="--heat-map looks at several", do="leave it out"
            )
    gpus, gpu = given["gpus"] or COUNTS, gpu_named(given["gpu"])
    counts = (gpus,) if isinstance(gpus, int) else tuple(gpus)
    models = [name.strip() for name in given["model"].split(",") if name.strip()] if given["model"] else MODELS
    failed: list[UserError] = []
    rows = tuple(_row({**given, "model": model}, counts, failed) for model in models)
    if len(failed) == len(rows) * len(counts):
        raise failed[0]
    return HeatMap(gpu=gpu.key, counts=counts, nodes=tuple(fewest_nodes(each, gpu) for each in counts), rows=rows)


def _row(given: Mapping[str, Any], counts: Sequence[int], failed: list[UserError]) -> HeatRow:
    name, model = model_from(given["model"])
    return HeatRow(model=name, parameters=model.parameters, cells=tuple(_cell(given, each, failed) for each in counts))


def _cell(given: Mapping[str, Any], gpus: int, failed: list[UserError]) -> HeatCell:
    """The cell; why there is none is added to `failed`."""
    try:
        step = best_step({**given, "gpus": gpus})
    except UserError as error:
        failed.append(error)
        return HeatCell(gpus=gpus, because=error.what)
    loss = max(
        (name for name in step.parts if class_of(name, step.plan) != "compute"), key=lambda name: step.parts[name]
    )
    return HeatCell(
        gpus=gpus,
        nodes=step.plan.nodes,
        division=division(step.plan),
        micro_batch=step.plan.micro_batch,
        tokens_per_s_per_gpu=step.tokens_per_s_per_gpu,
        mfu_share=step.mfu,
        bound=_bound(step),
        largest_loss=loss,
        largest_loss_share=step.parts[loss] / step.step_s,
    )


def _bound(step: PredictedStep) -> CauseClass:
    seconds = seconds_by_class(step)
    name = leader({class_: seconds.get(class_, 0.0) / step.step_s for class_ in _CLASSES})[0]
    return next(class_ for class_ in _CLASSES if class_ == name)


def render(heat: HeatMap, console: Console) -> None:
    """Print the map, as many columns side by side as fit."""
    page = Page(console)
    says = f"best MFU in % by model and number of {heat.gpu}, and the class that leads the step"
    page.paragraph(says, label="heat map:")
    names = max(len(row.model) for row in heat.rows)
    words = [_word(cell) for row in heat.rows for cell in row.cells]
    each = max(len(word) for word in (*words, *(f"{gpus:,}" for gpus in heat.counts)))
    at_once = max((page.width - names) // (each + 2), 1)
    for first in range(0, len(heat.counts), at_once):
        page.gap()
        _print_columns(page, heat, slice(first, first + at_once), (names, each))
    page.gap()
    for row in heat.rows:
        best = max(row.cells, key=lambda cell: cell.mfu_share or 0.0)
        page.paragraph(f"{row.model}: {cell_words(best)}", label="best:" if row is heat.rows[0] else "")


def _print_columns(page: Page, heat: HeatMap, columns: slice, widths: tuple[int, int]) -> None:
    names, each = widths
    head = "".join(f"{gpus:,}".rjust(each + 2) for gpus in heat.counts[columns])
    page.line(Text(f"{'GPUs'.ljust(names)}{head}", "bold"))
    nodes = "".join(f"{nodes:,}".rjust(each + 2) for nodes in heat.nodes[columns])
    page.line(Text(f"{'nodes'.ljust(names)}{nodes}", "bold"))
    for row in heat.rows:
        cells = row.cells[columns]
        page.line(Text(row.model.ljust(names) + "".join(_mfu(cell).rjust(each + 2) for cell in cells)))
        page.line(Text(" " * names + "".join(_word(cell).rjust(each + 2) for cell in cells), "dim"))


def _mfu(cell: HeatCell) -> str:
    return "-" if cell.mfu_share is None else f"{100 * cell.mfu_share:.0f}"


def _word(cell: HeatCell) -> str:
    return "not run" if cell.bound is None else _SHORT.get(cell.bound, cell.bound)


def cell_words(cell: HeatCell) -> str:
    """A cell in words."""
    if cell.mfu_share is None or cell.largest_loss_share is None:
        return f"on {cell.gpus:,} GPUs {cell.because}"
    return (
        f"{percent(cell.mfu_share, 0)} on {cell.gpus:,} GPUs with {cell.division}, micro-batch {cell.micro_batch}; most"
        f" is lost to {cell.largest_loss}, {percent(cell.largest_loss_share, 0)}"
    )
