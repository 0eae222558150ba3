"""Which formula answers which row of the table of worked examples, one module per area.

What the product has no use for stands here, too: `formulas`, `accounting`, `kineto`, `predict`, `products`,
`straggler` and `traffic`.
"""

from collections.abc import Mapping
from typing import Any

from diagnose.errors import UserError
from worked_examples import capacity, communication, flops, prediction, rates, roofline
from worked_examples.common import Check, Value

ROWS: dict[str, Check] = {
    **flops.ROWS,
    **rates.ROWS,
    **communication.ROWS,
    **roofline.ROWS,
    **prediction.ROWS,
    **capacity.ROWS,
}


def evaluate(id: str, inputs: Mapping[str, Any]) -> Value:
    """The value of one row from its inputs. UserError: the id is unknown, or an input is missing."""
    if id not in ROWS:
        raise UserError("no such worked example", where=id, do="pass the id of a row, such as C06")
    try:
        return ROWS[id](inputs)
    except KeyError as missing:
        raise UserError("an input is missing", where=id, why=f"{missing} is not among {sorted(inputs)}") from missing
