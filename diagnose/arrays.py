"""Array types named by what they hold, and functions that number and order long arrays.

Shapes and units are documented where an array is a field or a result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
"""Times in nanoseconds, counts, rows of a table, numbers of steps and ranks."""
Floats = NDArray[np.float64]
"""Shares, rates and times that are averaged."""
Mask = NDArray[np.bool_]
"""One answer for each entry."""
Ids = NDArray[np.int32]
"""Indices into a table of names, and numbers that a trace gives."""
Texts = NDArray[np.str_]
"""Texts that are compared all at once."""
Array = NDArray[Any]
"""An array of any type."""

ABSENT = -1
"""In an array of numbers that are 0 or more: one that is not known."""
_EXACT = 1 << 53  # integers up to it are doubles
_ROWS_IN_32_BITS = 1 << 31
_FEW = 12
_LARGEST_TABLE = 2  # places for each entry: with more of them a sort takes less time or memory


def distinct(values: Array) -> Array:
    """The distinct integers, ascending: as np.unique, but without a sort if they lie close together."""
    if not _lie_close(values, len(values)):
        ascending: Array = np.sort(values)
        first = np.ones(len(values), bool)
        first[1:] = ascending[1:] != ascending[:-1]
        return np.asarray(ascending[first])
    return _distinguished(values)[1]


def counted(values: Array) -> tuple[Array, Ints]:
    """The distinct integers, ascending, and how often each occurs."""
    if not _lie_close(values, len(values)):
        several, times = np.unique(values, return_counts=True)
        return several, times
    least = int(values.min())
    times = np.bincount(_above(values, least))
    several = np.flatnonzero(times)
    return (several + least).astype(values.dtype), times[several]


def numbered(values: Array) -> tuple[Array, Ints]:
    """The distinct integers, ascending, and for each entry the number of its own."""
    several, number = shortly_numbered(values)
    return several, number.astype(np.int64)


def shortly_numbered(values: Array) -> tuple[Array, Array]:
    """The distinct integers, ascending, and the numbers of the entries in as few bytes as they need."""
    if not _lie_close(values, len(values)):
        several, number = np.unique(values, return_inverse=True)
        return several, shortened(number.ravel(), len(several))
    there, several = _distinguished(values)
    return several, shortened(np.cumsum(there) - 1, len(several))[_above(values, int(several[0]))]


def _above(values: Array, least: int) -> Ints:
    """Difference of each integer to the least, as 64 bits, since a narrow type may overflow."""
    return np.subtract(values, least, dtype=np.int64)


def _distinguished(values: Array) -> tuple[Mask, Array]:
    """Mask of the integers that occur, from the least to the largest, and the integers."""
    least, most = int(values.min()), int(values.max())
    there = np.zeros(most - least + 1, bool)
    there[_above(values, least)] = True
    return there, (np.flatnonzero(there) + least).astype(values.dtype)


def among(values: Array, wanted: Array) -> Mask:
    """Whether each is one of `wanted`: as np.isin, but quicker if many are wanted that nearly ascend, or lie close."""
    if not len(wanted):
        return np.zeros(len(values), bool)
    if _lie_close(wanted, len(wanted) + len(values)):
        there, several = _distinguished(wanted)
        return _looked_up(there, int(several[0]), values, False)
    known = np.sort(wanted, kind="stable")
    return known[np.minimum(np.searchsorted(known, values), len(known) - 1)] == values


def first_of(keys: Array, wanted: Array) -> Ints:
    """Position of the first of `keys` that equals each wanted integer; -1 if none does."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    if _lie_close(keys, len(keys) + len(wanted)):
        least = int(keys.min())
        place = np.full(int(keys.max()) - least + 1, -1, _row_type(len(keys)))
        place[_above(keys[::-1], least)] = np.arange(len(keys) - 1, -1, -1)  # what is written last stays: the first
        return _looked_up(place, least, wanted, -1)
    order = np.argsort(keys, kind="stable")
    at = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where(keys[at] == wanted, at, -1)


def _looked_up(table: Array, least: int, values: Array, otherwise: Any) -> Array:
    """Entry of the table for each value; the table begins at `least`, and values outside it give `otherwise`."""
    above = _above(values, least)
    found = np.take(table, above, mode="clip")
    beyond = above.view(np.uint64) >= len(table)  # what is negative is large
    if beyond.any():
        found[beyond] = otherwise
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class Coded:
    """Numbers that many entries share: `code` indexes `values`, and takes one byte per entry if these are few."""

    code: Array
    values: Floats

    @classmethod
    def of(cls, numbers: Floats) -> "Coded":
        """The same numbers, coded."""
        values, code = np.unique(numbers, return_inverse=True)
        return cls(shortened(code.ravel(), len(values)), values.astype(np.float64))

    @classmethod
    def ones(cls, count: int) -> "Coded":
        """1 for each of `count` entries."""
        return cls(np.zeros(count, np.uint8), np.ones(1))

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, rows: Array) -> Floats:
        return np.asarray(self.values[self.code[rows]])

    def where(self, those: Mask) -> Mask:
        """Mask of the entries whose value is one of `those`, a mask over the values."""
        return marked(those, self.code)

    def times(self, factor: float, where: Mask) -> "Coded":
        """The same numbers, multiplied by the factor at each entry that the mask selects."""
        return self.paired(Coded(where.view(np.uint8), np.array([1.0, factor])), np.multiply)

    def paired(self, other: "Coded", made: Callable[[Floats, Floats], Floats]) -> "Coded":
        """The result of `made` for the two numbers of each entry."""
        values, code = np.unique(made(self.values[:, None], other.values[None, :]), return_inverse=True)
        pair = self.code.astype(np.min_scalar_type(code.size)) * np.min_scalar_type(code.size).type(len(other.values))
        return Coded(shortened(code.ravel(), len(values))[pair + other.code], values)


@dataclass(frozen=True, eq=False)
class Labels:
    """Texts of which many entries share one: `code` indexes `names`, which ascend."""

    code: Array
    names: tuple[str, ...]

    @classmethod
    def of(cls, texts: Sequence[str], which: Array) -> "Labels":
        """Labels with the text `texts[which]` for each entry."""
        names = tuple(sorted(set(texts)))
        place = {name: at for at, name in enumerate(names)}
        code = np.array([place[text] for text in texts], np.min_scalar_type(len(names)))
        return cls(code[which] if len(code) else np.zeros(len(which), code.dtype), names)

    @classmethod
    def all_alike(cls, text: str, count: int) -> "Labels":
        """The same text for each of `count` entries."""
        return cls(np.zeros(count, np.uint8), (text,))

    def __len__(self) -> int:
        return len(self.code)

    def __getitem__(self, rows: Array) -> "Labels":
        return Labels(self.code[rows], self.names)

    def are(self, text: str) -> Mask:
        """Mask of the entries with this text."""
        if text not in self.names:
            return np.zeros(len(self), bool)
        return np.asarray(self.code == self.names.index(text))

    def otherwise(self, keep: Mask, other: "Labels") -> "Labels":
        """The texts to `keep`, the other ones elsewhere."""
        names = tuple(sorted({*self.names, *other.names}))
        return Labels(np.where(keep, self.numbered(names), other.numbered(names)), names)

    def but(self, where: Mask, text: str) -> "Labels":
        """The same labels, with `text` at each entry that the mask selects."""
        return self.otherwise(~where, Labels.all_alike(text, len(self)))

    def numbered(self, names: Sequence[str]) -> Array:
        """Position of each entry's text in `names`; 0 if it is not among them."""
        place = [names.index(name) if name in names else 0 for name in self.names]
        return np.array(place, np.min_scalar_type(len(names)))[self.code]

    def there(self) -> list[str]:
        """The texts that at least one entry has, ascending."""
        times = np.bincount(self.code, minlength=len(self.names))
        return [name for name, many in zip(self.names, times.tolist(), strict=True) if many]

    def tolist(self) -> list[str]:
        """The text of each entry."""
        return [self.names[code] for code in self.code.tolist()]


def shortened(ids: Array, count: int) -> Array:
    """The ids, each below `count`, in as few bytes as they need: then comparing all with one is quick."""
    return ids.astype(np.min_scalar_type(max(count - 1, 0)))


def rows_in(rows: Ints, count: int) -> Array:
    """Rows of a table of `count` entries, and -1, in 32 bits if these hold them."""
    return rows.astype(_row_type(count), copy=False)


def _row_type(count: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if count <= _ROWS_IN_32_BITS else np.int64


def marked(marks: Mask, ids: Array) -> Mask:
    """Whether each of the ids is marked; comparing all with a few is quicker than looking each up."""
    wanted = np.flatnonzero(marks)
    if len(wanted) > _FEW:
        return np.take(marks, ids, mode="clip")  # none is clipped: it is the mode that checks nothing beforehand
    mask = np.zeros(len(ids), bool)
    for each in wanted.tolist():
        mask |= ids == each
    return mask


def ordered(first: Array, *then: Array) -> Ints:
    """Positions sorted by `first`, ties by each of `then` in turn: as np.lexsort, which sorts by all of them."""
    order = np.argsort(first, kind="stable")
    ties = first[order[1:]] == first[order[:-1]]
    if then and ties.any():
        tied = np.flatnonzero(np.append(ties, False) | np.append(False, ties))
        rows = order[tied]
        order[tied] = rows[np.lexsort((*(column[rows] for column in reversed(then)), first[rows]))]
    return order


def summed(which: Ints, values: Ints, count: int) -> Ints:
    """The sum of the values of each number below `count`: as np.add.at, quicker if doubles hold the sums exactly."""
    largest = max(abs(int(values.min())), abs(int(values.max()))) if len(values) else 0
    if largest * len(values) < _EXACT:
        return np.bincount(which, weights=values, minlength=count).astype(np.int64)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, which, values)
    return sums


def combined(*columns: Array) -> Array:
    """A number for each distinct row of parallel columns of integers, ascending as the rows do.

    It has the narrowest type: numbers of 16 bits are sorted in linear time.
    """
    number, count = np.zeros(len(columns[0]), np.uint8), 1
    for column in columns:
        several, which = shortly_numbered(column)
        count *= len(several)
        number = number.astype(np.min_scalar_type(count))
        number *= number.dtype.type(len(several))
        number += which
    return number


def _lie_close(values: Array, entries: int) -> bool:
    return len(values) > 0 and int(values.max()) - int(values.min()) < _LARGEST_TABLE * entries
