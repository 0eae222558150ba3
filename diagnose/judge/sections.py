"""The parts of a diagnosis, of which one that fails leaves the others as they are."""

from collections.abc import Callable
from typing import TypeVar

from diagnose.diagnosis import NotJudged
from diagnose.errors.defects import netted
from diagnose.facts import A_DEFECT

Value = TypeVar("Value")


class Sections:
    """Computes parts one by one; `failed` has an entry for each that could not be."""

    def __init__(self) -> None:
        self.failed: list[NotJudged] = []

    def part(self, name: str, action: Callable[[], Value], otherwise: Value) -> Value:
        """Return `action()`, or `otherwise` if it fails."""

        def instead(because: str) -> Value:
            if all(entry.rule != name for entry in self.failed):
                self.failed.append(NotJudged.lacking(name, because, A_DEFECT))
            return otherwise

        return netted(name, action, instead)
