"""Every row of checks.csv: inputs, a formula in words, and the value that `evaluate` must give.

How a value is compared with the printed one:

- a number differs by at most the row's `abs_tolerance`, which covers the rounding of the printed digits; a tolerance
  of 0 or none asks for the printed value itself, up to the last bits of a double;
- "true" and "false" are compared as flags;
- "a;b;c" and "x < y -> holds" are tuples, "name=a;name=b" are dicts: part by part, each with the row's tolerance.
"""

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from over_all import over_all
from worked_examples import ROWS, evaluate

from diagnose.errors import UserError

TABLE = (Path(__file__).parent / "checks.csv").read_text(encoding="utf-8")
ROW_BY_ID = {row["id"]: row for row in csv.DictReader(TABLE.splitlines())}
LAST_BITS = 1e-12


def inputs_of(row: dict[str, str]) -> dict[str, Any]:
    return json.loads(row["inputs_json"])


def expected_of(text: str) -> Any:
    """The printed value as `evaluate` returns it."""
    if " -> " in text:
        return tuple(expected_of(part) for part in re.split(r" < | -> ", text))
    parts = [part.strip() for part in text.split(";")]
    if "=" in text:
        return {name: expected_of(value) for name, value in (part.split("=") for part in parts)}
    return tuple(expected_of(part) for part in parts) if len(parts) > 1 else json.loads(text)


def agrees(value: Any, expected: Any, tolerance: float) -> bool:
    if isinstance(expected, dict):
        return value.keys() == expected.keys() and all(agrees(value[k], expected[k], tolerance) for k in expected)
    if isinstance(expected, list | tuple):
        same_kind = type(value) is type(expected) and len(value) == len(expected)
        return same_kind and all(agrees(v, e, tolerance) for v, e in zip(value, expected, strict=True))
    if isinstance(expected, bool) or isinstance(value, bool):
        return value is expected
    if isinstance(value, int) and isinstance(expected, int):
        return abs(value - expected) <= tolerance
    return math.isclose(value, expected, rel_tol=LAST_BITS, abs_tol=tolerance)


@over_all("row_id", ROW_BY_ID)
def test_row(row_id: str) -> None:
    row = ROW_BY_ID[row_id]

    value = evaluate(row_id, inputs_of(row))

    assert agrees(value, expected_of(row["expected"]), float(row["abs_tolerance"] or 0)), f"{value} != {row}"


def test_there_are_266_rows_and_evaluate_knows_no_others() -> None:
    assert len(ROW_BY_ID) == 266
    assert set(ROWS) == set(ROW_BY_ID)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("82.0", 82.0),
        ("true", True),
        ("1;2;3.5", (1, 2, 3.5)),
        ("ts=99.999;dur=50.002", {"ts": 99.999, "dur": 50.002}),
        ("transfer=[50,51]; wait=[1,0]", {"transfer": [50, 51], "wait": [1, 0]}),
        ("4.88 < 10.71 -> false", (4.88, 10.71, False)),
    ],
)
def test_printed_values_are_read(text: str, value: object) -> None:
    assert expected_of(text) == value


@pytest.mark.parametrize(
    ("value", "expected", "tolerance"),
    [(8.31, 8.29, 0.01), (1, True, 0.0), (96.5, 96, 0.0), ((1, 2), (1, 3), 0.5), ({"a": 1}, {"b": 1}, 1.0)],
)
def test_what_does_not_agree(value: object, expected: object, tolerance: float) -> None:
    assert not agrees(value, expected, tolerance)


# The value comes from the inputs: a table of answers would fail what follows.


def changed(value: Any) -> Any:
    """Another value of the same kind: numbers triple, a list in its last entry, and a model becomes the other one."""
    if isinstance(value, list):
        return [*value[:-1], changed(value[-1])]
    if isinstance(value, str):
        return {"Llama-3.2-1B": "OPT-1.3B", "OPT-1.3B": "Llama-3.2-1B"}.get(value, value)
    return not value if isinstance(value, bool) else value * 3


@over_all("row_id", [i for i, row in ROW_BY_ID.items() if inputs_of(row)])
def test_some_input_changes_the_value(row_id: str) -> None:
    inputs = inputs_of(ROW_BY_ID[row_id])
    before = evaluate(row_id, inputs)

    after = [evaluate(row_id, {**inputs, name: changed(value)}) for name, value in inputs.items()]

    assert any(value != before for value in after)


RATES = [i for i, row in ROW_BY_ID.items() if "tokens_per_s" in row["inputs_json"] and "-step" not in i]
STEPS = [i for i in ROW_BY_ID if i.endswith("-step") and i[0] in "MO"]


@over_all("row_id", RATES)
def test_utilisation_is_proportional_to_the_rate(row_id: str) -> None:
    inputs = inputs_of(ROW_BY_ID[row_id])

    tripled = evaluate(row_id, {**inputs, "tokens_per_s": 3 * inputs["tokens_per_s"]})

    assert tripled == pytest.approx(3 * evaluate(row_id, inputs))


@over_all("row_id", STEPS)
def test_a_step_is_tokens_over_rate(row_id: str) -> None:
    assert evaluate(row_id, {"tokens_per_s": 5000, "batch": 3, "T": 500}) == pytest.approx(300.0)


@over_all("row_id", [i for i in RATES if i.endswith(("-PaLM", "-palm")) or i.startswith("S")])
def test_mfu_follows_the_model_the_length_and_the_peak(row_id: str) -> None:
    inputs = {"model": "OPT-1.3B", "T": 512, "tokens_per_s": 1000, "peak": 1e15}

    assert evaluate(row_id, inputs) == pytest.approx(100 * (6 * 1310916608 + 12 * 24 * 2048 * 512) * 1000 / 1e15)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16, 32])
def test_scaling_rows_take_ranks_from_the_inputs(ranks: int) -> None:
    inputs = {"n_gpus": 3, "tok_s_per_gpu": 80, "base": 100, "batch": 2, "T": 1000}

    values = [evaluate(f"D{ranks}-{name}", inputs) for name in ("total", "speedup", "eff", "step", "tax")]

    assert values == pytest.approx([240, 2.4, 80, 25000, 5000])


def test_parameters_follow_the_sizes() -> None:
    sizes = {"hidden": 8, "layers": 2, "heads": 2, "kv_heads": 1, "head_dim": 4, "ffn": 16, "vocab": 100}
    multiplied = 2 * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 16) + 100 * 8

    assert evaluate("P01", {**sizes, "tied": True}) == multiplied
    assert evaluate("P02", {**sizes, "tied": True}) == multiplied + 8 * 5
    assert evaluate("P02", {**sizes, "tied": False}) == multiplied + 8 * 5 + 100 * 8
    assert evaluate("P03", {**sizes, "tied": False}) == multiplied + 8 * 5
    assert evaluate("P05", {"hidden": 10, "layers": 3, "ffn": 40, "vocab": 7}) == 3 * 12 * 100 + 70


def test_collectives_follow_ranks_and_times() -> None:
    assert evaluate("C01", {"S": 100, "n": 4}) == 150
    assert evaluate("C06", {"S": 4e9, "t_us": 1e6, "n": 4}) == pytest.approx(6)
    assert evaluate("C07", {"S": 4e9, "t_us": 1e6, "n": 4}) == pytest.approx(3)
    assert evaluate("C13", {"G": 100, "first": 10, "cap": 40}) == 4
    assert evaluate("C15", {"starts": [5, 0], "ends": [9, 8]}) == {"transfer": [4, 3], "wait": [0, 5]}
    assert evaluate("C18", {"comm": [[0, 10], [5, 20]], "compute": [[15, 40]]}) == 15


def test_the_parts_of_a_step_add_up_and_end_with_it() -> None:
    parts = evaluate("W01", {"T": 50, "compute": [[0, 10]], "comm": [[5, 30]], "memcpy": [[40, 90]]})

    assert parts == {"compute": 10, "exposed_comm": 20, "exposed_memcpy": 10, "idle": 10}


def test_loss_chunks_follow_the_sizes() -> None:
    assert evaluate("R23", {"B": 1, "T": 1000, "V": 50, "H": 10}) == 4  # 1000 rows / 5 -> 256 each
    assert evaluate("R24", {"B": 1, "T": 1000, "V": 10, "H": 10}) == 1


def test_predictions_follow_the_measured_rate() -> None:
    slow, fast = (evaluate("Q02", {"thr5": rate}) for rate in (5000, 10000))

    assert 5000 < slow < fast
    assert evaluate("Q02", {"thr5": 10000, "N": 0}) == pytest.approx(10000)  # nothing fixed: the rate stays
    assert evaluate("Q08", {"a": 90.0, "b": 3.0, "B1": 10}) == pytest.approx((9.0, 1.0, True))


def test_an_unknown_row_is_named() -> None:
    with pytest.raises(UserError, match="no such worked example: Z99"):
        evaluate("Z99", {})


def test_a_missing_input_is_named() -> None:
    with pytest.raises(UserError, match="'n' is not among"):
        evaluate("C01", {"S": 1})
