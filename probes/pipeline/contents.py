"""Sizes of samples and batches: their bytes, and their lengths in tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from ..facts.job_objects import tensors_of
from ..facts.rows import RowSums
from ..introspection import is_a, items

_NUMBER_BYTES = 8  # of an index or a label, as it stands in a tensor
_DEPTH = 4
MOST_LENGTHS = 20_000
REPEATED_TOKENS = 8  # at an end of a row, from which on they may be padding that no mask shows


def bytes_of(value: Any, depth: int = _DEPTH) -> int | None:
    """Bytes of the tensors, arrays, texts and numbers in `value`; None if something else holds the data."""
    torch: Any = sys.modules["torch"]
    if is_a(value, torch.Tensor):
        return int(value.numel()) * int(value.element_size())
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and is_a(value, numpy.ndarray, numpy.generic):
        return int(value.nbytes)
    if value is None or is_a(value, bool, int, float):
        return _NUMBER_BYTES
    if is_a(value, str, bytes, bytearray, memoryview):
        return len(value)
    parts = list(value) if is_a(value, list, tuple) else list(items(value).values())
    if not depth or not (parts or is_a(value, list, tuple, dict)):
        return None
    sizes = [bytes_of(part, depth - 1) for part in parts]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def tensors_in(batch: Any) -> list[Any]:
    """The tensors of a batch."""
    return [tensor for _, tensor in tensors_of(batch)]


class Lengths:
    """Lengths of the loaded samples in tokens, and of the rows of their batches.

    Attributes:
        of_samples: tokens of each sample without padding.
        of_batches: samples and tokens of a row of each batch.
        because: why the lengths of a batch are unknown; "" if all are known.
    """

    def __init__(self) -> None:
        self.of_samples: list[int] = []
        self.of_batches: list[tuple[int, int]] = []
        self.because = ""
        self._rows = RowSums()
        self._hidden = False

    def note(self, samples: Any, batch: Any) -> None:
        """Count a batch; `samples` are None if a worker made it."""
        if len(self.of_samples) >= MOST_LENGTHS or self._hidden:
            return
        found = dict(tensors_of(batch))
        ids = found.get("input_ids")
        if ids is None or ids.dim() != 2 or not ids.numel():
            self.because = "batches have no input_ids of samples x tokens"
            return
        self._rows.note(samples, batch)
        rows, tokens = (int(size) for size in ids.shape)
        mask = found.get("attention_mask")
        real = list(_real(mask, ids, samples))
        if len(real) != rows:
            self.because = "neither an attention_mask nor the samples say which tokens are padding"
            return
        if mask is None and any(count == tokens and _ends_alike(row) for count, row in zip(real, ids)):  # noqa: B905
            self.of_samples, self.of_batches, self._hidden = [], [], True
            self.because = "no attention_mask tells whether the tokens that rows repeat at their ends are padding"
            return
        self.of_samples += real
        self.of_batches.append((rows, tokens))

    def facts(self) -> dict[str, Any]:
        """The lengths as the answer has them."""
        return {
            "samples": self.of_samples,
            "batches": self.of_batches,
            "because": self.because,
            "before_collation": self._rows.facts(),
        }


def _ends_alike(row: Any) -> bool:
    """Whether a row ends or begins with one token again and again, as padding would."""
    ends = (row[-REPEATED_TOKENS:], row[:REPEATED_TOKENS])
    return len(row) > REPEATED_TOKENS and any(bool((end == end[0]).all()) for end in ends)


def _real(mask: Any, ids: Any, samples: Any) -> Iterator[int]:
    """Number of tokens in each row that are no padding, by the mask, else by the samples before collating."""
    if mask is not None:
        if mask.shape == ids.shape:
            yield from (int(count) for count in (mask != 0).sum(dim=1))
        return
    for sample in samples if is_a(samples, list, tuple) else ():
        tokens: Any = items(sample).get("input_ids")
        if is_a(tokens, list, tuple) or hasattr(tokens, "shape"):
            yield min(len(tokens), int(ids.shape[1]))
