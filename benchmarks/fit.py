"""Fits the rates of training stacks on public tables, and says how well they predict rows that they have not seen.

    python benchmarks/fit.py TABLES [--write]

TABLES is the folder with the public tables, whose origin is in the report. A fold leaves out all rows of a stack,
model, board, way of dividing, length or number of nodes, and is scored on them. `--write` writes the report into
benchmarks/reports, the rates into diagnose/data/training_stacks.toml, and what widens a range into
diagnose/data/step_ranges.toml.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from fitting import pairs
from fitting.fit_data import RANGES, STACKS, ranges_text, updated
from fitting.fits import AXES, FREE, Fits
from fitting.folds import Fold, measured_s
from fitting.published_pairs import published_pairs
from fitting.rates import Row, choices, ratios
from reporting import REPORTS, parser, table, today

from diagnose.commands.fit.stacks import StackRates
from diagnose.commands.fit.step_time import predict_step

LEAST_MFU = 0.15
NEAR_BEST = 0.1  # of the best row's rate
_SCORES = "rows", "in the range", "median width", "median error", "90th percentile"


def _percent(errors: np.ndarray, percentile: int) -> str:
    return f"{100 * np.percentile(errors, percentile):.1f} %" if len(errors) else "-"


def scores(rows: Sequence[Row], stack: StackRates) -> list[object]:
    """Cells of a table for the rows that the stack was fitted on."""
    steps = [predict_step(row.plan, stack).calibration for row in rows]
    inside = [step.low_s <= measured_s(row) <= step.high_s for step, row in zip(steps, rows, strict=True)]
    width = np.median([step.width for step in steps])
    errors = np.abs(ratios(rows, stack) - 1)
    return _cells(np.array(inside), float(width), errors)


def _cells(inside: np.ndarray, width: float, errors: np.ndarray) -> list[object]:
    share = f"{100 * inside.mean():.0f} %"
    return [len(inside), share, f"{width:.2f}x", _percent(errors, 50), _percent(errors, 90)]


def blind_scores(fits: Fits, folds: Sequence[Fold]) -> list[object]:
    """The same for the rows of folds, each predicted without its own."""
    found = [fold.ranges(fits.uncertainty(fold)) for fold in folds]
    inside, widths = (np.concatenate(each) for each in zip(*found, strict=True))
    return _cells(inside, float(np.median(widths)), np.abs(np.concatenate([fold.predicted for fold in folds]) - 1))


def summary(fits: Fits) -> Iterator[str]:
    """Of every axis all rows that were left out, and its factor."""
    yield "\n## Left out\n\nA fold's rows are predicted by a fit without them, with the factors of the other folds."
    yield "Seen rows are predicted by the fit on all.\n"
    seen = [row for rows in fits.rows.values() for row in rows]
    yield table(("left out", "folds", *_SCORES, "factor"), _axes(fits))
    yield f"\n{len(seen)} rows in all.\n\n### Stacks\n"
    yield table(("left out", *_SCORES), [[fold.value, *blind_scores(fits, [fold])] for fold in fits.of_stacks])


def _axes(fits: Fits) -> Iterator[list[object]]:
    for axis in AXES:
        folds = fits.of_axis(axis)
        yield [AXES[axis], len(folds), *blind_scores(fits, folds), f"{fits.factors[axis]:.2f}"]


def chosen(fits: Fits) -> Iterator[str]:
    """How often the row that would be chosen is near the best."""
    lost = {(name, *key): loss for name in fits.rows for key, loss in choices(fits.rows[name], fits.fits[name]).items()}
    groups = {key: loss for key, loss in lost.items() if _rivals(fits, key) > 1}
    near = sum(loss <= NEAR_BEST for loss in groups.values())
    yield f"\n## Chosen configuration\n\nOf {len(groups)} groups of a stack, a model and so many GPUs that have several"
    yield f"rows the one chosen is within 10 % of the best in {near} ({100 * near / len(groups):.0f} %)."
    worst = sorted(groups, key=groups.__getitem__)[-5:]
    yield f"Worst: {', '.join(f'{name} {m} on {g} {100 * groups[name, m, g]:.0f} %' for name, m, g in worst)}."


def _rivals(fits: Fits, key: tuple[str, str, int]) -> int:
    return sum((row.model, row.plan.gpus) == key[1:] for row in fits.rows[key[0]])


def of_pairs(tables: Path, fits: Fits) -> Iterator[str]:
    """Every published pair with what is predicted of it."""
    found = list(published_pairs(tables / "pairs.csv", fits.fits))
    signs = [pair.has_right_sign for pair in found if pair.has_right_sign is not None]
    yield "\n## Published pairs\n\nOf the pairs that `fit` expresses and whose change is more than 5 %,"
    yield f"{sum(signs)} of {len(signs)} have the right sign.\n"
    yield table(
        ("pair", "measured", "predicted", "sign"),
        [
            [pair.name, f"{pair.measured:.2f}x", f"{pair.predicted:.2f}x", _SIGNS[pair.has_right_sign]]
            if pair.predicted
            else [pair.name, f"{pair.measured:.2f}x", "-", pair.because]
            for pair in found
        ],
    )


_SIGNS = {None: "no sign", True: "right", False: "wrong"}


def of_stack(fits: Fits, name: str) -> Iterator[str]:
    """The section of a stack."""
    rows, stack = fits.rows[name], fits.fits[name]
    yield f"\n## {name}\n\n{stack.source}.\n"
    well = [row for row in rows if row.mfu >= LEAST_MFU]
    lines = [["fitted on all", *scores(rows, stack)], ["of them MFU of 15 % and more", *scores(well, stack)]]
    for fold in fits.folds[name]:
        lines.append([f"without {fold.axis} {fold.value}", *blind_scores(fits, [fold])])
    yield table(("rows", *_SCORES), [[line[0], *line[1:]] for line in lines])
    if stack.stall_odds:
        odds = ", ".join(f"{name} {value:+.3g}" for name, value in stack.stall_odds.items())
        yield f"\nLogarithm of the odds of a stall: {odds}."
    ends = ", ".join(f"{name} {low} to {high}" for name, (low, high) in stack.span.items())
    yield "\nMeasured over predicted, of models that were left out, 10th to 90th percentile without stalls:"
    yield f"{ends}.\n"
    if switches := pairs.report(rows, stack):
        yield f"{switches}\n"
    yield table(("rate", "value"), [(rate, f"{getattr(stack, rate):.3g}") for rate in FREE[name]])


def main() -> None:
    """Fit every stack, and print or write the report."""
    asked = parser(__doc__, writes=False)
    asked.add_argument("tables", type=Path)
    asked.add_argument("--write", action="store_true")
    options = asked.parse_args()
    fits = Fits(options.tables)
    lines = [f"# Fitted rates of training stacks, {today()}", "", "`python benchmarks/fit.py TABLES --write`"]
    lines += [*summary(fits), *chosen(fits), *of_pairs(options.tables, fits)]
    lines += [line for name in fits.rows for line in of_stack(fits, name)]
    print("\n".join(lines))
    if options.write:
        (REPORTS / f"fit-{today()}.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
        data = STACKS.read_text(encoding="utf-8")
        for stack in (*fits.fits.values(), fits.pooled):
            data = updated(data, stack)
        STACKS.write_text(data, encoding="utf-8")
        RANGES.write_text(ranges_text(fits.behind_factors, (*fits.fits.values(), fits.pooled)), encoding="utf-8")


if __name__ == "__main__":
    main()
