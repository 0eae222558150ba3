"""The formulas of the field as pure functions of numbers: model FLOPs, rooflines, collectives, memory, energy.

Each takes plain numbers whose names carry the unit and gives the source of the formula. The rest of the package calls
them. `evaluate` applies them to the rows of a table of worked examples.
"""

from collections.abc import Mapping
from typing import Any


def evaluate(id: str, inputs: Mapping[str, Any]) -> Any:
    """The value of one worked example, in the row's unit, computed from its inputs.

    A quantity that a row only gives in its text (the model, the peak, the sequence length) has a default and can be
    given as an input.

    Args:
        id: the row, such as "M15.9-PaLM" or "C06".
        inputs: the row's inputs by name.

    Returns:
        A number or a bool. A row with several values in order ("a;b;c", "x < y -> holds") gives a tuple; one with
        named values ("a=..;b=..") gives a dict of them.

    Raises:
        UserError: the id is unknown, or an input is missing.
    """
    from diagnose.formulas.checks import value_of  # here, so that one formula costs the import of one module

    return value_of(id, inputs)
