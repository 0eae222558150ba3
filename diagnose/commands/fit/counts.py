"""Numbers of GPUs: those that the command line leaves open, their forecasts, and the one that a purpose asks for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from diagnose.cli.numbers import check_purposes
from diagnose.commands.fit.bill import NOTHING_STATED, Bill, BillQuestion, Counted, question_of
from diagnose.commands.fit.boards import GPUS_PER_NODE
from diagnose.commands.fit.forecast import Forecast
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.planning import Given, best_step, forecast_of
from diagnose.commands.fit.step_time import PredictedStep
from diagnose.errors import UserError, WrongUsage
from diagnose.formulas.model import ModelShape
from diagnose.predict import budgeting
from diagnose.predict.memory.job import MOST

OPEN = (1, 512)
"""The numbers of GPUs that are looked at where nobody states any."""
_DEARER = 4  # numbers in a row that meet a deadline, each for more GPU-hours than the one before
_MOST_COUNTS = 24  # each is a search of a second or more


class _GpuCounts(click.ParamType):  # type: ignore[type-arg]  # generic in some versions of click
    """A number of GPUs, several with commas between, or a range such as 8-64."""

    name = "gpus"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | tuple[int, ...]:
        if not isinstance(value, str):
            return value
        if "-" in value.strip()[1:]:
            low, high = (self._count(part, param, ctx) for part in value.split("-", 1))
            if low > high:
                self.fail(f"{value} ends before it begins.", param, ctx)
            return usual_counts(low, high)
        counts = tuple(sorted({self._count(part, param, ctx) for part in value.split(",")}))
        return counts if len(counts) > 1 else counts[0]

    def _count(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return int(_COUNT.convert(text.strip(), param, ctx))


_COUNT: Any = click.IntRange(1, MOST)
GPU_COUNTS = _GpuCounts()


def usual_counts(low: int, high: int) -> tuple[int, ...]:
    """Powers of two and whole nodes from `low` to `high`; of many nodes those of one or three times a power of two."""
    powers = {1 << power for power in range(high.bit_length())}
    nodes = range(GPUS_PER_NODE, high + 1, GPUS_PER_NODE)
    whole = {count for count in nodes if count >= low}
    if len(whole) > _MOST_COUNTS // 2:
        whole = {GPUS_PER_NODE * 3 * power for power in powers}
    return tuple(sorted(count for count in powers | whole | {low, high} if low <= count <= high))


def costed_forecast(given: Given, found: Callable[[str], tuple[str, ModelShape]] = model_from) -> Forecast:
    """The forecast with its cost, on the number of GPUs that serves the purpose if several may be taken.

    Raises:
        UserError: the job runs on none of them, or there is no such job.
    """
    check_purposes(given)
    question, counts = question_of(given), open_counts(given)
    if counts is None:
        made = forecast_of(given, found)
        asks = question is not None and (given["deadline"] is not None or given["budget"] is not None)
        counted = Counted(question, (Bill(made.step, question),)) if asks and question else None
        return replace(made, question=question, counted=counted)
    asked, is_open = question or NOTHING_STATED, given["gpus"] is None
    counted = counted_on(counts, asked, lambda gpus: best_step({**given, "gpus": gpus}, found), is_open)
    made = forecast_of({**given, "gpus": counted.chosen_gpus}, found)
    return replace(made, question=asked, counted=counted)


def open_counts(given: Mapping[str, Any]) -> Sequence[int] | None:
    """The numbers of GPUs to choose from; None if the options leave no choice.

    Raises:
        WrongUsage: machines are stated for several numbers of GPUs.
    """
    gpus, asks = given["gpus"], given["deadline"] is not None or given["budget"] is not None
    if isinstance(gpus, int) or (gpus is None and (given["dp"] is not None or not asks)):
        return None
    if given["nodes"] is not None:
        raise WrongUsage("--nodes states the machines of one number of GPUs", do="leave it out, or state --gpus 64")
    return usual_counts(*OPEN) if gpus is None else gpus


def counted_on(
    counts: Sequence[int], question: BillQuestion, step_on: Callable[[int], PredictedStep], is_open: bool = False
) -> Counted:
    """The bill of the job on each number of GPUs.

    Args:
        counts: the numbers, ascending.
        question: about the cost.
        step_on: the predicted step on a number of GPUs.
        is_open: nobody states the numbers, so that those which can only be dearer are not tried.

    Raises:
        UserError: it runs on none of them.
    """
    bills: list[Bill] = []
    failed: dict[int, UserError] = {}
    for gpus in counts:
        if is_open and _is_settled(bills, question):
            break
        try:
            bills.append(Bill(step_on(gpus), question))
        except UserError as error:
            failed[gpus] = error
    if not bills:
        raise failed[max(failed)]
    return Counted(question, tuple(bills), tuple((gpus, error.what) for gpus, error in failed.items()))


def _is_settled(bills: Sequence[Bill], question: BillQuestion) -> bool:
    """Whether more GPUs are no cheaper way to meet the deadline: the last few that met it cost more and more."""
    if question.deadline_h is None:
        return False
    spent = [bill.gpu_hours[1] for bill in bills if budgeting.meets(bill.hours, question.deadline_h)][-_DEARER:]
    return len(spent) == _DEARER and spent == sorted(set(spent))
