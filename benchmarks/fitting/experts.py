"""Rows of mixtures of experts, adapters and context parallelism in the public tables, and how far off they are.

    python -m benchmarks.fitting.experts TABLES            # the tables of the report
    python -m benchmarks.fitting.experts TABLES --data     # renews the rates and ranges, too

Rates of mixtures and of context parallelism are fitted with the stack's other rates as they are; each model is left out
in turn.
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from reporting import page, parser, publish, table

from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.feature_doubts import ADAPTED, CONTEXT, GROUPED, LAUNCHED
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.reasons import division
from diagnose.commands.fit.stacks import MeasuredRuns, StackRates, stack_of
from diagnose.commands.fit.step_time import predict_step
from diagnose.commands.fit.table import plan_of
from diagnose.errors import UserError
from diagnose.predict.memory.adapters import ALL_LINEAR, Adapters
from diagnose.predict.memory.job import JobPlan, Sharding

from .folds import FOUR_IN_FIVE, measured_runs
from .megatron import plan_of_printed, printed_rows
from .published_pairs import JOBS
from .rates import FIRM, Row, fitted, ratios
from .rows import rows_of, shape_of

_MIXTURES = {
    "Qwen3_30B_a3B": "Qwen3-30B-A3B", "Qwen3_235B_a22B": "Qwen3-235B-A22B", "GPT OSS 120B": "gpt-oss-120b",
    "DeepSeekV3": "DeepSeek-V3", "Kimi_K2": "Kimi-K2",
}  # fmt: skip
_KNOWN_PRECISION = re.compile(r"BF16|FP8")


def megatron_mixtures(path: Path) -> Iterator[Row]:
    """Megatron-Bridge's mixtures in bf16 and fp8; interleaved stages are predicted as if they were not."""
    for row in printed_rows(path, re.compile("|".join(_MIXTURES))):
        precision = row.cells["precision"] or "FP8"
        if _KNOWN_PRECISION.match(precision.removeprefix("MX")):
            plan = plan_of_printed(row, _MIXTURES[row.model])
            fp8 = "FP8" in precision
            yield Row(replace(plan, fp8=fp8), row.tokens_per_s_per_gpu, 1.0, _MIXTURES[row.model])


def megatron_context(path: Path) -> Iterator[Row]:
    """Megatron-Bridge's dense Llamas in fp8 with context parallelism."""
    for row in printed_rows(path):
        if row.count("cp") > 1 and "FP8" in (row.cells["precision"] or "FP8"):
            yield Row(plan_of_printed(row), row.tokens_per_s_per_gpu, 1.0, row.model)


def megatron_tuning(path: Path) -> Iterator[Row]:
    """Megatron-Bridge's fine-tuning of Llama 3 70B: all weights, or adapters on all linear layers."""
    for kind, adapters in (("SFT", None), ("LoRA", Adapters(16, (ALL_LINEAR,)))):
        for row in printed_rows(path, kind=kind):
            plan = plan_of_printed(row)
            yield Row(replace(plan, adapters=adapters), row.tokens_per_s_per_gpu, 1.0, kind)


def nemo(path: Path) -> Iterator[Row]:
    """NeMo AutoModel's rows whose model is known, read as `fit --table` reads them."""
    for row in rows_of(path):
        with suppress(UserError):
            plan = plan_of(row, "megatron", shape_of)
            name = model_from(plan.name.replace(" ", "-"))[0]
            yield Row(replace(plan, name=name), float(row["tokens_sec_gpu"].replace(",", "")), 1.0, name)


_TITAN_DEGREES = re.compile(r"FSDP (?P<dp>\d+), CP (?P<cp>\d+)")


def torchtitan_context(path: Path) -> Iterator[Row]:
    """torchtitan's sequences of 32k to 262k tokens on 1 to 8 ranks each, Llama 3.1 8B on one node and 405B on 64."""
    for row in rows_of(path):
        if found := _TITAN_DEGREES.match(row["parallelism"]):
            large = "405B" in row["section"]
            size, tp, pp = ("405B", 8, 8) if large else ("8B", 1, 1)
            dp, cp = int(found["dp"]), int(found["cp"])
            plan = JobPlan(
                name=size,
                model=model_from(f"Llama-3.1-{size}")[1],
                gpu=gpu_named("H100-96GB-HBM2e"),
                gpus=dp * cp * tp * pp,
                nodes=dp * cp * tp * pp // 8,
                seq_len=int(row["sequence_length"]),
                accumulation=8 if large else 1,
                checkpointing="full",
                compiled=True,
                fp8=True,
                sharding=Sharding(
                    dp, tp, pp, 0 if large and dp * cp == 1 else 2 if large else 3, cp=cp, uneven_stages=large
                ),
            )
            yield Row(plan, float(row["tps_gpu"].replace(",", "")), 1.0, size)


def adapters_of_trainer(path: Path) -> Iterator[Row]:
    """Adapters under transformers' Trainer: both sides of the published pairs of such runs, each run once."""
    rates: dict[JobPlan, float] = {}
    for row in rows_of(path):
        for (where, *change), (stack, *plans) in JOBS.items():
            if stack == "transformers" and row["where"].endswith(where) and change == [row["before"], row["after"]]:
                for plan, side in zip(plans, ("before_value", "after_value"), strict=True):
                    rates[replace(plan, adapters=Adapters(16, (ALL_LINEAR,)))] = float(row[side]) / plan.gpus
    yield from (Row(plan, rate, 1.0, plan.name) for plan, rate in rates.items())


_QWEN = {"qwen2-7b": 5.652, "qwen2-72b": 1.178, "qwen2-57b": 0.21}
_QWEN_TOKENS = 512


def qwen_adapters() -> Iterator[Row]:
    """Samples a second of Qwen2 on eight H100 with ZeRO-3 and adapters (QwenLM/Qwen3, issue 736).

    Rank, length, accumulation and checkpointing are those of that repository's fine-tuning script, whose experts run in
    a loop.
    """
    for name, samples_per_s in _QWEN.items():
        plan = JobPlan(
            name=name,
            model=model_from(name)[1],
            gpu=gpu_named("H100"),
            gpus=8,
            seq_len=_QWEN_TOKENS,
            accumulation=8,
            dtype="bf16",
            checkpointing="full",
            expert_products="loop",
            adapters=Adapters(64, (ALL_LINEAR,)),
            sharding=Sharding(8, zero=3),
        )
        yield Row(plan, samples_per_s * _QWEN_TOKENS / 8, 1.0, name)


def blind(rows: Sequence[Row], start: StackRates, names: Sequence[str]) -> np.ndarray:
    """Predicted over measured throughput of each row, with the named rates fitted on the rows of other models."""
    predicted = np.ones(len(rows))
    for model in sorted({row.model for row in rows}):
        inside = [at for at, row in enumerate(rows) if row.model == model]
        learned = fitted([row for row in rows if row.model != model], start, names, FIRM)
        predicted[inside] = ratios([rows[at] for at in inside], learned)
    return predicted


_STARTS = {
    "megatron": {"expert_share": 0.8, "expert_layer_s": 0.002, "exchange_exposed_share": 0.7},
    "torchtitan": {"context_slowdown": 0.2},
}
_HOST_BOUND = 0.3  # of the step that a host twice as slow adds
_DATA = Path(__file__).parents[2] / "diagnose" / "data"


def host_share(row: Row, stack: StackRates) -> float:
    """By how much a host that takes twice as long lengthens the step."""
    slower = stack.with_rates({"host_layer_s": 2 * stack.host_layer_s})
    return predict_step(row.plan, slower).steady_s / predict_step(row.plan, stack).steady_s - 1


def factor(predicted: np.ndarray) -> float:
    """What four in five predictions are within."""
    return float(np.exp(np.percentile(np.abs(np.log(predicted)), FOUR_IN_FIVE)))


def measured(tables: Path) -> dict[str, list[tuple[str, list[Row], np.ndarray]]]:
    """By stack, kinds of rows, the rows, and their prediction over the measured throughput; fitted rates are blind."""
    bridge, stack = tables / "megatron_bridge.csv", stack_of
    mixtures, titan = list(megatron_mixtures(bridge)), list(torchtitan_context(tables / "torchtitan.csv"))
    own = {name: stack(name).with_rates(start) for name, start in _STARTS.items()}
    context, tuning = list(megatron_context(bridge)), list(megatron_tuning(bridge))
    trainer, qwen = list(adapters_of_trainer(tables / "pairs.csv")), list(qwen_adapters())
    automodel = list(nemo(tables / "nemo_automodel.csv"))
    kinds = {kind: [row for row in automodel if holds(row.plan)] for kind, holds in _NEMO_KINDS.items()}
    return {
        "megatron": [
            ("mixtures, of a model left out", mixtures, blind(mixtures, own["megatron"], tuple(_STARTS["megatron"]))),
            ("context parallelism", context, ratios(context, stack("megatron"))),
            ("fine-tuning", tuning, ratios(tuning, stack("megatron"))),
            *((f"NeMo AutoModel, {kind}", rows, ratios(rows, stack("megatron"))) for kind, rows in kinds.items()),
        ],
        "torchtitan": [
            ("context parallelism, of a model left out", titan, blind(titan, own["torchtitan"], ("context_slowdown",)))
        ],
        "transformers": [
            ("adapters", trainer, ratios(trainer, stack("transformers"))),
            ("adapters with ZeRO-3, Qwen2", qwen, ratios(qwen, stack("transformers"))),
        ],
    }


_NEMO_KINDS = {
    "mixtures": lambda plan: bool(plan.model.experts),
    "adapters": lambda plan: plan.adapters is not None,
    "dense": lambda plan: not plan.model.experts and plan.adapters is None,
}


def within_range(rows: Sequence[Row], stack: StackRates) -> float:
    """Share of the rows whose step lies in its predicted range."""
    ranges = [(row, predict_step(row.plan, stack).calibration) for row in rows]
    seconds = [row.plan.tokens_per_step / row.plan.gpus / row.tokens_per_s_per_gpu for row in rows]
    return float(np.mean([span.low_s <= at <= span.high_s for (_, span), at in zip(ranges, seconds, strict=True)]))


def report(found: dict[str, list[tuple[str, list[Row], np.ndarray]]]) -> Iterator[str]:
    """A table of the kinds of rows, and one of each stack's rows."""
    lines = []
    for stack, kinds in found.items():
        for kind, rows, predicted in kinds:
            low, middle, high = np.percentile(predicted, [10, 50, 90])
            error = 100 * np.median(np.abs(predicted - 1))
            spread, inside = f"{low:.2f} to {high:.2f}", f"{100 * within_range(rows, stack_of(stack)):.0f} %"
            lines.append([stack, kind, len(rows), f"{error:.0f} %", f"{middle:.2f}", spread, inside])
    heads = (
        "rates of",
        "rows",
        "how many",
        "median error",
        "predicted over measured, median",
        "10th to 90th percentile",
        "in the range",
    )
    yield table(heads, lines)
    for stack, kinds in found.items():
        heads = "rows", "job", "tokens/s of a GPU", "predicted over measured"
        each = (
            (kind, row, ratio) for kind, rows, predicted in kinds for row, ratio in zip(rows, predicted, strict=True)
        )
        cells = [
            [kind, _job(row.plan), f"{row.tokens_per_s_per_gpu:,.0f}", f"{ratio:.2f}"] for kind, row, ratio in each
        ]
        yield f"## {stack}\n\n{table(heads, cells)}"


def _job(plan: JobPlan) -> str:
    how = f"{plan.gpus} {plan.gpu.key}, {plan.seq_len} tokens, micro-batch {plan.micro_batch}"
    return f"{plan.name}, {how}, {division(plan)}{', fp8' * plan.fp8}{', adapters' * bool(plan.adapters)}"


def factors(found: dict[str, list[tuple[str, list[Row], np.ndarray]]]) -> dict[str, float]:
    """The factors of the data file that rows tell."""
    mixtures = found["megatron"][0][2]
    rows = [
        (row, ratio)
        for _, own, predicted in found["transformers"][:1]
        for row, ratio in zip(own, predicted, strict=True)
    ]
    slow = {id(row): host_share(row, stack_of("transformers")) > _HOST_BOUND for row, _ in rows}
    launched = np.array([ratio for row, ratio in rows if slow[id(row)]])
    others = [ratio for row, ratio in rows if not slow[id(row)]]
    tuned = [ratio for row, ratio in zip(*found["megatron"][2][1:], strict=True) if row.plan.adapters]
    context = np.concatenate([found["megatron"][1][2], found["torchtitan"][0][2]])
    return {
        GROUPED: factor(mixtures),
        CONTEXT: factor(context),
        ADAPTED: factor(np.array([*others, *tuned])),
        LAUNCHED: factor(launched),
    }


def write_data(found: dict[str, list[tuple[str, list[Row], np.ndarray]]]) -> None:
    """Renew the fitted rates and the ranges in the data files."""
    path = _DATA / "training_stacks.toml"
    text = path.read_text(encoding="utf-8")
    for name, start in _STARTS.items():
        own = fitted(found[name][0][1], stack_of(name).with_rates(start), tuple(start), FIRM)
        for rate in start:
            pattern = rf"(^\[{name}\]\n(?:(?!\[).*\n)*?){rate} = .*$"
            text, count = re.subn(pattern, rf"\g<1>{rate} = {getattr(own, rate):.3g}", text, flags=re.M)
            assert count == 1, (name, rate)
    path.write_text(text, encoding="utf-8")
    path = _DATA / "feature_ranges.toml"
    head = path.read_text(encoding="utf-8").partition("# Written")[0]
    lines = [f"{head}# Written by `python -m benchmarks.fitting.experts TABLES --data`.\n"]
    lines += [f"[factor.{name}]\nfactor = {value:.2f}\n" for name, value in factors(found).items()]
    for name in ("megatron", "torchtitan"):
        rows = [row for kind, own, _ in found[name] for row in own if "NeMo" not in kind]
        lines += [measured_table(name, runs) for runs in measured_runs(rows)]
    path.write_text("\n".join(lines), encoding="utf-8")


def measured_table(name: str, runs: MeasuredRuns) -> str:
    """Measured runs as a table of the data file."""
    cells = {field: json.dumps(value) for field, value in asdict(runs).items()}
    return f"[[stack.{name}.measured]]\n" + "".join(f"{field} = {value}\n" for field, value in cells.items())


def main() -> None:
    """Print the report, or write it and the data."""
    options = parser(__doc__)
    options.add_argument("tables", type=Path, metavar="TABLES", help="folder of the public tables")
    options.add_argument("--data", action="store_true", help="renew the rates and ranges in diagnose/data")
    chosen = options.parse_args()
    found = measured(chosen.tables)
    if chosen.data:
        write_data(found)
    publish(page("Mixtures, adapters and context parallelism", "", *report(found)), chosen.write, "fit-experts")


if __name__ == "__main__":
    main()
