"""Types of numbers on the command line."""

import math
from typing import Any

import click


class _Positive(click.FloatRange):
    """A number above zero that is finite: "inf" and "nan" pass a plain range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


POSITIVE = _Positive(min=0, min_open=True)
