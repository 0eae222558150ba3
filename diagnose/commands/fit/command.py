"""`diagnose fit`: does a job fit its GPUs, how fast will it be, and how to divide it, before it runs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from diagnose.cli.command import Command, Option, refuse_beyond, refuse_given
from diagnose.cli.forms import html_option_of, json_option, out_option
from diagnose.cli.giving import Forms, give
from diagnose.cli.names import gpus, models
from diagnose.cli.numbers import POSITIVE, cost_options, mfu_as_option, purpose_options
from diagnose.cli.whole_file import whole_file
from diagnose.commands.fit.answer import answer_of
from diagnose.commands.fit.counts import GPU_COUNTS, costed_forecast
from diagnose.commands.fit.features import feature_options
from diagnose.commands.fit.heat_map import HeatMap, heat_map_of
from diagnose.commands.fit.heat_map import render as render_heat_map
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.planning import FSDP
from diagnose.commands.fit.stacks import stack_of
from diagnose.commands.fit.table import as_csv, predictions, read_table
from diagnose.commands.fit.text import render
from diagnose.errors import UserError, WrongUsage, printable
from diagnose.predict.memory.job import ATTENTIONS, CHECKPOINTINGS, MOST

if TYPE_CHECKING:
    from diagnose.report.views.summary import About

_COUNT = click.IntRange(1, MOST)
_PROBLEMS = 5  # rows that cannot be predicted and are reported
_DEFAULTS = {
    "model": "model", "gpu": "gpu", "gpus": "gpus", "nodes": "nodes", "seq_len": "seq_len",
    "micro_batch": "micro_batch", "accumulation": "accumulation", "dtype": "dtype", "attn": "attention",
    "checkpointing": "checkpointing", "liger": "liger", "compiled": "compile",
}  # fmt: skip
_OF_COST = ("deadline", "budget", "gpu_hour_price", "power_w", "pue", "kg_per_kwh", "tokens")
_OF_TABLE = ("table", "out", "ignore_columns", "stack", "mfu_as", *_DEFAULTS)


@click.command(
    cls=Command, epilog="Example:  diagnose fit --model llama-3.1-8b --gpu H100 --gpus 16 --global-batch 256"
)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=models,
    help="Name the model: Hugging Face repository, short form (8b), or a config.json.",
)
@click.option("--gpu", metavar="NAME", shell_complete=gpus, help="Name the GPU, one of `diagnose hardware`.")
@click.option(
    "--gpus",
    metavar="N",
    type=GPU_COUNTS,
    help="Use N GPUs, or choose from 8-64 or 8,24 (default: as many as the division needs, else 1).",
)
@click.option("--nodes", type=_COUNT, help="Spread them over N machines (default: at most eight GPUs in each).")
@click.option(
    "--seq-len", type=_COUNT, help="Take sequences of N tokens (default: 2048, or the model's maximum if less)."
)
@click.option("--micro-batch", type=_COUNT, help="Let one GPU process N sequences at once.")
@click.option("--accumulation", type=_COUNT, help="Take N micro-batches in an optimizer step.")
@click.option("--global-batch", type=_COUNT, help="Take N sequences in an optimizer step, over all GPUs.")
@click.option(
    "--dtype", help="Compute in bf16, bf16-mixed, fp32, tf32, ... (default: as the stack does, mostly bf16-mixed)."
)
@click.option(
    "--optimizer", default="adamw", show_default=True, help="Update with adamw, adamw-8bit, lion, adafactor, ..."
)
@click.option(
    "--attn",
    type=click.Choice(ATTENTIONS),
    help="Use these attention kernels (default: searched with the division, else sdpa).",
)
@click.option(
    "--checkpointing",
    type=click.Choice(CHECKPOINTINGS),
    help="Recompute these activations in the backward pass (default: searched with the division, else none).",
)
@click.option(
    "--liger/--no-liger",
    default=None,
    help="Use Liger kernels or none (default: searched with the division, else none).",
)
@click.option(
    "--compile/--no-compile",
    "compiled",
    default=None,
    help="Compile the model or not (default: searched with the division, else not).",
)
@click.option("--fp8", is_flag=True, help="Run the blocks' matrix products in fp8.")
@click.option("--dp", type=_COUNT, help="Take N data-parallel ranks.")
@click.option("--tp", type=_COUNT, help="Take N tensor-parallel ranks.")
@click.option("--pp", type=_COUNT, help="Take N pipeline stages.")
@feature_options
@click.option(
    "--zero",
    cls=Option,
    idle_with={"fsdp": "--fsdp is a ZeRO stage by another name"},
    type=click.IntRange(0, 3),
    help="Shard by this ZeRO stage.",
)
@click.option("--fsdp", type=click.Choice(tuple(FSDP)), help="Shard as FSDP does, like ZeRO stage 3 or 2.")
@click.option(
    "--stack",
    metavar="NAME",
    help="Use the published rates of this framework: transformers, llm-foundry, torchtitan, megatron or nanotron.",
)
@click.option(
    "--calibrate",
    type=click.Path(path_type=Path),
    help="Use the rates of a diagnosed run (its JSON), or of doctor --measure --json, instead of the stack's.",
)
@click.option(
    "--network-gbs", type=POSITIVE, help="State what collectives reach on a node's network, GB/s in one direction."
)
@mfu_as_option
@purpose_options
@cost_options
@click.option(
    "--heat-map",
    is_flag=True,
    help="Show the best MFU by model and GPUs instead: --model 1b,8b,70b --gpus 8-256 (default: some of each).",
)
@html_option_of("the heat map", needs="heat_map", because="a forecast is printed")
@json_option("the forecast")
@click.option("--table", type=click.Path(path_type=Path), help="Predict each row of a CSV file instead; needs --out.")
@out_option("Write the table with predictions to this file.", needs="table", because="a forecast is printed")
@click.option(
    "--ignore-columns",
    cls=Option,
    needs="table",
    is_flag=True,
    help="Skip unknown columns of --table instead of refusing the table.",
)
def fit(table: Path | None, out: Path | None, ignore_columns: bool, **given: Any) -> None:
    """Estimate, before the run, whether a job fits, how fast it is, and how to split it.

    The answer comes before the job runs, from sizes and published runs alone. docs/fit.md says how far to trust it.

    Without --dp, --tp, --pp, --zero or --fsdp every way to divide the job is tried, and the best are ranked. What is
    stated stays as it is.
    """
    if table is not None:
        refuse_beyond(_OF_TABLE, "has no effect with --table: state it in a column of the table.")
        if isinstance(given["gpus"], tuple):
            raise WrongUsage("--gpus states several numbers", why="a row of --table has one", do="state one number")
        told = {name: str(given[option]) for option, name in _DEFAULTS.items() if given[option] is not None}
        rows = partial(read_table, table, told, ignore_columns)
        _predict_table(rows, table, out, given["stack"], given["mfu_as"])
        return
    for name in ("model", "gpu"):
        if given[name] is None and not (given["heat_map"] and name == "model"):
            raise WrongUsage(f"--{name} is missing", do="diagnose fit --model llama-3.1-8b --gpu H100 --gpus 8")
    if given["heat_map"]:
        _heat_map(given)
        return
    made = costed_forecast(given)
    give(answer_of(made), Forms(text=partial(render, made)), given)


def _heat_map(given: dict[str, Any]) -> None:
    refuse_given(_OF_COST, "has no effect with --heat-map, which tells no cost.")
    heat = heat_map_of(given)
    give(heat, Forms(text=partial(render_heat_map, heat), page=partial(_page, heat)), given)


def _page(heat: HeatMap, about: "About") -> str:
    from diagnose.commands.fit.html import heat_map_page  # its libraries load when a page is asked for

    return heat_map_page(heat, about)


def _predict_table(
    rows: Callable[[], list[dict[str, str]]], table: Path, out: Path | None, stack: str | None, mfu_as: str | None
) -> None:
    if out is None:
        raise WrongUsage("--out is missing", why="--table writes the rows with their predictions to a file of its own")
    if stack is not None:
        stack_of(stack)
    made = predictions(rows(), stack, lambda name: model_from(name)[1], mfu_as)
    if len(made.problems) == len(made.rows):
        line, first = next(iter(made.problems.items()))
        raise UserError(
            "no row of the table can be predicted", where=table, why=f"line {line}: {first.what}", do=first.do
        )
    try:
        with whole_file(out) as file:
            file.write(as_csv(made.rows))
    except OSError as error:
        raise UserError("cannot write the table", where=out, why=error.strerror or str(error)) from error
    for line, problem in list(made.problems.items())[:_PROBLEMS]:
        click.echo(f"line {line} is not predicted: {printable(' '.join(problem.message.split()))}", err=True)
    left = f", {len(made.problems)} of them without a prediction" if made.problems else ""
    click.echo(f"wrote {len(made.rows)} rows to {printable(str(out))}{left}", err=True)
