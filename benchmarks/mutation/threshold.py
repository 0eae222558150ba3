"""A threshold that is a constant of Python."""

from __future__ import annotations

from typing import NamedTuple


class Threshold(NamedTuple):
    """A constant of a module."""

    module: str
    name: str
    value: float

    @property
    def label(self) -> str:
        """The constant in one line."""
        return f"{self.module}: {self.name}"
