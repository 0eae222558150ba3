"""Models by name, as their published configurations state them: a row of data/models.csv each, with its source."""

import csv
from collections.abc import Mapping
from pathlib import Path

from diagnose.formulas.model import ModelShape

_TABLE = Path(__file__).parents[1] / "data" / "models.csv"
_FLAGS = ("tied", "gated", "bias", "qkv_bias", "qk_norm", "qk_norm_whole", "attention_sinks", "shared_gated")
_NOT_A_SIZE = ("name", "aliases", "source", "model_type", *_FLAGS)


def _rows() -> list[dict[str, str]]:
    with _TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _shape(row: Mapping[str, str]) -> ModelShape:
    """An empty cell, or one that a short row lacks, stands for the default of `ModelShape`."""
    sizes = {field: int(cell) for field, cell in row.items() if cell and field not in _NOT_A_SIZE}
    flags = {field: row[field] == "yes" for field in _FLAGS if row[field]}
    return ModelShape(**sizes, **flags, model_type=row["model_type"])  # type: ignore[arg-type]


_ROWS = _rows()
NAMED_MODELS = {row["name"]: _shape(row) for row in _ROWS}
_NAMES = {
    name.lower(): row["name"] for row in _ROWS for name in (row["name"], *filter(None, row["aliases"].split("|")))
}


def named_model(name: str) -> tuple[str, ModelShape] | None:
    """The table's name and the shape of a model by its name, repository or short form; None for an unknown one."""
    short = name.lower().rsplit("/", 1)[-1]
    known = _NAMES.get(name.lower()) or _NAMES.get(short) or _NAMES.get(short.replace("_", "-"))
    return (known, NAMED_MODELS[known]) if known else None
