"""Whether a loader draws from all rows of its dataset, and which these are, so that ranks can be compared."""

from __future__ import annotations

import ctypes
import sys
import zlib
from typing import Any

from ..introspection import is_table, of_torchs_data, own_attribute, rows, shape, unseen, untouched

_BYTES = 4096  # of a tensor, from its begin on


def all_rows(loader: Any) -> int | None:
    """A number made of the dataset that one of torch's own loaders draws from, all of it in each pass; else None.

    A sampler of the job's, or one that knows of ranks, gives None, as do datasets whose rows only their own code shows.
    """
    plain = of_torchs_data(loader, "DataLoader") and of_torchs_data(
        own_attribute(loader, "batch_sampler"), "BatchSampler"
    )
    sampler = own_attribute(loader, "sampler")
    if not plain or not of_torchs_data(sampler, "RandomSampler", "SequentialSampler"):
        return None
    data = own_attribute(sampler, "data_source")
    known = None if own_attribute(sampler, "_num_samples") is not None else _identity(data)
    return None if known is None else zlib.crc32(f"{rows(data)} {known}".encode()) + 1


def _identity(data: Any) -> str | None:
    """Sizes of the tensors with the first bytes of each, or the fingerprint of a table of datasets."""
    if of_torchs_data(data, "TensorDataset"):
        return " ".join(_first_row(tensor) for tensor in own_attribute(data, "tensors"))
    if is_table(data):
        fingerprint = own_attribute(data, "_fingerprint")
        return fingerprint if type(fingerprint) is str else None
    return None


def _first_row(tensor: Any) -> str:
    """The sizes, and the first bytes; read from memory, as an operator would show in a profiler of the job's."""
    kind: Any = sys.modules["torch"].Tensor
    sizes = shape(tensor)
    with untouched(), unseen():
        plain = type(tensor) is kind and tensor.device.type == "cpu" and tensor.is_contiguous()
        count = tensor.numel() * tensor.element_size() if plain else 0
        start = tensor.data_ptr() if count else 0
    return f"{sizes} {ctypes.string_at(start, min(count, _BYTES)).hex() if start else ''}"
