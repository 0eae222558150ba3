"""Events on their way from the tables of an export to the columns of a trace."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from diagnose.arrays import Array, Ints

UNNAMED = "(unnamed)"
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class EventRows:
    """Some events: times in nanoseconds, MISSING if there is none, and the process of each.

    `name` and `cat` index `names` and `cats`; `others` are further columns of the trace, by name. `pid` is the device's
    number for activities of a GPU.
    """

    begin: Ints
    end: Ints
    owner: Ints
    pid: Ints
    tid: Ints
    names: Sequence[str]
    name: Ints
    cats: Sequence[str]
    cat: Ints
    others: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.begin)


def spelled(
    numbers: Ints, told: Sequence[str | None], texts: Mapping[int, str], name_of: Callable[[str], str]
) -> tuple[list[str], Ints]:
    """The name of each row that refers to a text by its number, or holds the text itself."""
    if not any(told):
        return named(numbers[:, None], lambda number: name_of(texts.get(number, UNNAMED)))
    said = [text or texts.get(number, UNNAMED) for text, number in zip(told, numbers.tolist(), strict=True)]
    place = {text: at for at, text in enumerate(dict.fromkeys(said))}
    return [name_of(text) for text in place], np.array([place[text] for text in said], np.int64)


def named(kinds: Ints, name_of: Callable[..., str]) -> tuple[list[str], Ints]:
    """The names of rows by the columns that determine their kind, shape (rows, any): distinct names, and an index."""
    if not len(kinds):
        return [], np.zeros(0, np.int64)
    distinct, which = np.unique(kinds, axis=0, return_inverse=True)
    return [name_of(*kind) for kind in distinct.tolist()], which.ravel()
