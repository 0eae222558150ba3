"""Fits the rates of training stacks on public tables, and says how well they predict rows that they have not seen.

    python benchmarks/fit.py TABLES [--stack nanotron] [--write]

TABLES is the folder with the public tables, whose origin is in the report. Every number is the error of predicted
throughput; a fold leaves out all rows of a model, or of a number of nodes, and is scored on them. `--write` writes the
report into benchmarks/reports and the rates into diagnose/data/training_stacks.toml.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fitting import pairs
from fitting.rates import FIRM, LOOSE, Row, choices, fitted, ratios, steady_ratios
from fitting.rows import SOURCES
from fitting.stalls import stalled, with_odds
from reporting import REPORTS, parser, table, today

from diagnose.commands.fit.stacks import RATES, StackRates, stacks
from diagnose.commands.fit.step_time import predict_step, regime

DATA = Path(__file__).parents[1] / "diagnose" / "data" / "training_stacks.toml"
LEAST_MFU = 0.15
FEWEST = 8  # rows of a regime from which on its own span is stated
_BETWEEN = ("tp_nodes_gbs", "ring_hop_s", "pipeline_hop_s", "handover_s", "stall_s", "collective_stall_s")
_TP = ("host_layer_tp_s", "tp_exposed_share", *_BETWEEN)
_HF = ("score_bytes", "liger_elementwise", "liger_logits")
_COMPILED = ("compiled_elementwise", "fp8_share")
_AMPERE = ("ampere_matrix", "ampere_attention")
_BLACKWELL = ("blackwell_matrix", "blackwell_attention")
_ELSEWHERE = (*_COMPILED, *_BLACKWELL, "host_shard_s")


def _all_but(*names: str) -> tuple[str, ...]:
    return tuple(name for name in RATES if name not in (*_ELSEWHERE, *names))


FREE = {
    "nanotron": _all_but(*_HF, *_AMPERE, "gather_exposed_share", "narrow_head_attention"),
    "llm-foundry": _all_but(*_TP, *_HF, "half_nodes", "reduce_exposed_share", "logits_bytes", "rank_spread"),
    "megatron": (
        "matrix_share",
        "attention_share",
        "elementwise_bytes",
        "tp_exposed_share",
        "gather_exposed_share",
        *_BLACKWELL,
    ),
    "torchtitan": ("matrix_share", "elementwise_bytes", "gather_exposed_share", "tp_exposed_share", *_COMPILED),
    "transformers": _all_but(
        *_TP,
        *_AMPERE,
        "half_nodes",
        "gather_exposed_share",
        "attention_share",
        "matrix_half_width",
        "narrow_head_attention",
    ),
}

FIRMNESS = {"nanotron": FIRM}


def scores(rows: Sequence[Row], predicted: np.ndarray) -> list[object]:
    """Cells of the table: errors of |predicted / measured - 1|."""
    errors = np.abs(predicted - 1)
    well = errors[[row.mfu >= LEAST_MFU for row in rows]]
    return [len(rows), _percent(errors, 50), len(well), _percent(well, 50), _percent(well, 90)]


def _percent(errors: np.ndarray, percentile: int) -> str:
    return f"{100 * np.percentile(errors, percentile):.1f} %" if len(errors) else "-"


@dataclass(frozen=True)
class Fold:
    """Rows that were left out of a fit because of a value that they share, and what it predicts of them.

    Attributes:
        what: "model M" or "nodes N".
        rows: left out.
        predicted: over measured throughput of each.
        steady: the same of the throughput predicted of a run that does not stall.
        stalled: whether each took the time of a stalled job.
    """

    what: str
    rows: list[Row]
    predicted: np.ndarray
    steady: np.ndarray
    stalled: list[bool]


def _firmness(stack: StackRates) -> float:
    return FIRMNESS.get(stack.name, LOOSE)


def learned(rows: Sequence[Row], start: StackRates) -> StackRates:
    """The stack with rates and odds of a stall fitted on the rows."""
    stack = with_odds(rows, start)
    return with_odds(rows, fitted(rows, stack, FREE[start.name], _firmness(start)))


def left_out(rows: Sequence[Row], start: StackRates, what: str, key: Callable[[Row], object]) -> Iterator[Fold]:
    """A fold for each value of the key."""
    for value in sorted({key(row) for row in rows}, key=str):
        inside = [row for row in rows if key(row) == value]
        blind = learned([row for row in rows if key(row) != value], start)
        yield Fold(
            f"{what} {value}",
            inside,
            ratios(inside, blind),
            steady_ratios(inside, blind),
            [stalled(row, blind) for row in inside],
        )


def spans(folds: Sequence[Fold], stack: StackRates) -> dict[str, tuple[float, float]]:
    """10th and 90th percentile of measured over predicted throughput by regime, of all rows where it has few.

    The rows are those of a model that the fit has not seen. Stalled ones are left out: the chance of a stall says how
    many they are.
    """
    rows = [row for fold in folds for row in fold.rows]
    predicted = np.concatenate([fold.steady for fold in folds])
    steady = ~np.concatenate([fold.stalled for fold in folds])
    found = {}
    for name in stack.span:
        own = steady & np.array([regime(row.plan) == name for row in rows])
        low, high = np.percentile(1 / predicted[own if own.sum() >= FEWEST else steady], [10, 90])
        found[name] = (round(float(low), 2), round(float(high), 2))
    return found


def within_range(rows: Sequence[Row], stack: StackRates) -> float:
    """Share of the rows whose step lies in its predicted range."""
    steps = [(row, predict_step(row.plan, stack)) for row in rows]
    measured = [row.plan.tokens_per_step / row.plan.gpus / row.tokens_per_s_per_gpu for row, _ in steps]
    return float(
        np.mean([s.fastest_s <= seconds <= s.slowest_s for (_, s), seconds in zip(steps, measured, strict=True)])
    )


def report(rows: Sequence[Row], stack: StackRates, folds: Sequence[Fold]) -> Iterator[str]:
    """The section of a stack."""
    yield f"\n## {stack.name}\n\n{stack.source}.\n"
    heads = "rows", "all", "median error", "MFU of 15 % or more", "median error", "90th percentile"
    blind = [[f"without {fold.what}, on it", *scores(fold.rows, fold.predicted)] for fold in folds]
    yield table(heads, [["fitted on all", *scores(rows, ratios(rows, stack))], *blind])
    lost = choices(rows, stack)
    worst = [f"{m} on {g} GPUs {100 * lost[m, g]:.0f} %" for m, g in sorted(lost, key=lost.__getitem__)[-3:]]
    typical = 100 * float(np.median(list(lost.values())))
    yield f"\nChosen for each model and GPUs, slower than the best row: {typical:.1f} % in the median of {len(lost)};"
    yield f"worst {', '.join(worst)}.\n"
    if stack.stall_odds:
        odds = ", ".join(f"{name} {value:+.3g}" for name, value in stack.stall_odds.items())
        yield f"Logarithm of the odds of a stall: {odds}.\n"
    ends = ", ".join(f"{name} {low} to {high}" for name, (low, high) in stack.span.items())
    yield "Measured over predicted, of models that were left out, 10th to 90th percentile without stalls:"
    yield f"{ends}."
    yield f"Runs inside of the predicted range: {100 * within_range(rows, stack):.0f} % of all.\n"
    if of_pairs := pairs.report(rows, stack):
        yield f"\n{of_pairs}\n"
    yield table(("rate", "value"), [(name, f"{getattr(stack, name):.3g}") for name in FREE[stack.name]])


def updated(text: str, stack: StackRates) -> str:
    """The data file with the section of a stack renewed."""
    head, section, rest = re.split(rf"^(\[{stack.name}\]\n(?:(?!\[).*\n)*)", text, maxsplit=1, flags=re.M)
    for name in FREE[stack.name]:
        rate = f"{name} = {getattr(stack, name):.3g}"
        section, found = re.subn(rf"^{name} = .*$", rate, section, flags=re.M)
        if not found:
            raise ValueError(f"{DATA.name} has no {name} of {stack.name}")
    span = ", ".join(f"{name} = [{low}, {high}]" for name, (low, high) in stack.span.items())
    odds = ", ".join(f"{name} = {value}" for name, value in stack.stall_odds.items())
    odds = f"{{ {odds} }}" if odds else "{}"
    section = re.sub(r"^stall_odds = .*$", f"stall_odds = {odds}", section, flags=re.M)
    return head + re.sub(r"^span = .*$", f"span = {{ {span} }}", section, flags=re.M) + rest


def main() -> None:
    """Fit the stacks that are asked for, and print or write the report."""
    asked = parser(__doc__, writes=False)
    asked.add_argument("tables", type=Path)
    asked.add_argument("--stack", choices=sorted(SOURCES), action="append")
    asked.add_argument("--write", action="store_true")
    options = asked.parse_args()
    lines = [f"# Fitted rates of training stacks, {today()}", "", "`python benchmarks/fit.py TABLES --write`"]
    data = DATA.read_text(encoding="utf-8")
    for name in options.stack or SOURCES:
        source, read = SOURCES[name]
        rows, start = list(read(options.tables / source)), stacks()[name]
        stack = learned(rows, start)
        by_model = list(left_out(rows, start, "model", lambda row: row.model))
        by_nodes = list(left_out(rows, start, "nodes", lambda row: row.plan.nodes))
        stack = replace(stack, span=spans(by_model, stack))
        lines += report(rows, stack, by_model + by_nodes)
        data = updated(data, stack)
    print("\n".join(lines))
    if options.write:
        (REPORTS / f"fit-{today()}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        DATA.write_text(data, encoding="utf-8")


if __name__ == "__main__":
    main()
