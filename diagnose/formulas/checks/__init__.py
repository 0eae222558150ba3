"""Map each row of the table of worked examples to its formula, one module per area.

Formulas that only examples use are in this package: `accounting`, `kineto`, `predict`, `products` and `straggler`.
"""

from collections.abc import Mapping
from typing import Any

from diagnose.errors import UserError
from diagnose.formulas.checks import capacity, communication, flops, prediction, rates, roofline
from diagnose.formulas.checks.common import Check, Value

ROWS: dict[str, Check] = {
    **flops.ROWS,
    **rates.ROWS,
    **communication.ROWS,
    **roofline.ROWS,
    **prediction.ROWS,
    **capacity.ROWS,
}


def value_of(id: str, inputs: Mapping[str, Any]) -> Value:
    """The value of one row from its inputs. UserError: the id is unknown, or an input is missing."""
    if id not in ROWS:
        raise UserError("no such worked example", where=id, do="pass the id of a row, such as C06")
    try:
        return ROWS[id](inputs)
    except KeyError as missing:
        raise UserError("an input is missing", where=id, why=f"{missing} is not among {sorted(inputs)}") from missing
