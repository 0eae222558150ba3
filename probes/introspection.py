"""Read the job's objects in torch and transformers without running a line of the job's own code.

Attributes are taken from the instance's dictionary and sizes from torch's own descriptors: a subclass may compute what
it likes in `__len__`, `parameters()` or a property, and asking would change the job.
"""

from __future__ import annotations

import os
import re
import sys
from collections import UserDict
from collections.abc import Iterator
from contextlib import nullcontext
from enum import Enum
from inspect import getattr_static
from types import FunctionType
from typing import Any

from .redaction import without_secrets

LOADERS_CONTEXT = "_DataLoader__multiprocessing_context"
INSTALLED = ("site-packages", "dist-packages")
_PLAIN_SEQUENCES = (list, tuple, range, str, dict)
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.\- ]{0,39}\Z")


def attributes(thing: object) -> dict[str, Any]:
    """The instance's own attributes; none if it has no dictionary."""
    try:
        values = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return {}
    return values if is_a(values, dict) else {}


def is_a(thing: object, *kinds: type) -> Any:
    """Whether the type of the thing alone is one of `kinds`: `isinstance` asks the thing, which may be a proxy."""
    return issubclass(type(thing), kinds)


def own_attribute(thing: object, name: str) -> Any:
    """The instance's attribute `name`; None if it is computed or missing."""
    return attributes(thing).get(name)


def plain(value: Any) -> object:
    """A number, flag or single word as JSON holds it; anything else, such as a path or a token, is None."""
    if is_a(value, Enum):
        value = attributes(value).get("_value_")
    if value is None or is_a(value, int):
        return value
    if is_a(value, float):
        return value if value == value and abs(value) != float("inf") else None
    return value if is_a(value, str) and _WORD.match(value) and without_secrets(value) == value else None


def modules(root: object) -> Iterator[Any]:
    """A torch module and those inside it, each once."""
    waiting, visited = [root], set()
    while waiting:
        module = waiting.pop()
        if module is None or id(module) in visited:
            continue
        visited.add(id(module))
        yield module
        waiting += reversed(_values(own_attribute(module, "_modules")))


def parameters(root: object, recurse: bool = True) -> list[Any]:
    """The parameters of a torch module, each once."""
    by_id: dict[int, Any] = {}
    for module in modules(root) if recurse else [root]:
        by_id.update((id(each), each) for each in _values(own_attribute(module, "_parameters")) if each is not None)
    return list(by_id.values())


def size(tensor: Any) -> int:
    """Number of elements of a tensor, over all its shards if it is distributed or DeepSpeed's ZeRO-3 holds a part."""
    whole = own_attribute(tensor, "ds_numel")
    return whole if type(whole) is int else int(_torch().Tensor.numel(tensor))


def element_bytes(tensor: Any) -> int:
    """Bytes of an element of a tensor."""
    return int(_torch().Tensor.element_size(tensor))


def dtype(tensor: Any) -> str:
    """The tensor's type, such as "bfloat16"."""
    return str(_torch().Tensor.dtype.__get__(tensor)).removeprefix("torch.")


def trains(tensor: Any) -> bool:
    """Whether gradients are asked for."""
    return bool(_torch().Tensor.requires_grad.__get__(tensor))


def has_gradient(tensor: Any) -> bool:
    """Whether a leaf holds a gradient."""
    of = _torch().Tensor
    return bool(of.is_leaf.__get__(tensor)) and of.grad.__get__(tensor) is not None


def shape(tensor: Any) -> list[int]:
    """The tensor's lengths."""
    return [int(length) for length in _torch().Tensor.shape.__get__(tensor)]


def untouched() -> Any:
    """A block in which torch's functions run no override of a tensor subclass, and no mode of the job's."""
    return _torch()._C.DisableTorchFunction()


def unseen() -> Any:
    """A block whose operators, such as the beginning of a range, no dispatch mode of the job sees."""
    return getattr(_torch()._C, "_DisableTorchDispatch", nullcontext)()


def setting(config: object, name: str) -> Any:
    """A value of transformers' configuration: held, maybe under the name it is mapped to, or computed by its class."""
    values = attributes(config)
    if name in values:
        return values[name]
    mapped = getattr_static(type(config), "attribute_map", None)
    if is_a(mapped, dict) and mapped.get(name) in values:
        return values[mapped[name]]
    of_class = getattr_static(type(config), name, None)
    if is_a(of_class, property) and is_a(of_class.fget, FunctionType):
        return of_class.fget(config) if of_class.fget.__module__.startswith("transformers.") else None
    return of_class if is_a(of_class, int, float, str) else None


def items(batch: Any) -> dict[Any, Any]:
    """The entries of a dictionary, of transformers' BatchEncoding, or of a dataclass; none of other things."""
    if is_a(batch, dict):
        return {key: dict.__getitem__(batch, key) for key in dict.keys(batch)}
    data = own_attribute(batch, "data") if UserDict in type(batch).__mro__ else None
    if is_a(data, dict):
        return items(data)
    fields = any("__dataclass_fields__" in vars(kind) for kind in type(batch).__mro__)
    return attributes(batch) if fields else {}


def inner_loader(loader: object) -> object:
    """torch's own DataLoader inside those of accelerate."""
    inside = own_attribute(loader, "base_dataloader")
    return loader if inside is None else inside


def loader_length(loader: object) -> int | None:
    """Batches of one pass over a DataLoader; None if only the job's own code could count them."""
    loader = inner_loader(loader)
    sampler, batches = own_attribute(loader, "sampler"), own_attribute(loader, "batch_sampler")
    rows, batch = _sampled(sampler), own_attribute(loader, "batch_size")
    drops = own_attribute(loader, "drop_last")
    if batches is not None:
        if not of_torchs_data(batches, "BatchSampler"):
            return None
        batch, drops = own_attribute(batches, "batch_size"), own_attribute(batches, "drop_last")
    if rows is None:
        return None
    if type(batch) is not int or batch < 1:
        return rows
    return rows // batch if drops else -(-rows // batch)


def _sampled(sampler: object) -> int | None:
    if of_torchs_data(sampler, "DistributedSampler"):
        count = own_attribute(sampler, "num_samples")
    elif of_torchs_data(sampler, "RandomSampler") and own_attribute(sampler, "_num_samples") is not None:
        count = own_attribute(sampler, "_num_samples")
    elif of_torchs_data(sampler, "RandomSampler", "SequentialSampler"):
        count = rows(own_attribute(sampler, "data_source"))
    else:
        count = None
    return count if type(count) is int else None


def rows(data: object) -> int | None:
    """Items of a plain sequence or of one of the datasets of torch and Hugging Face; None for the job's own kinds."""
    if type(data) in _PLAIN_SEQUENCES:
        return len(data)  # type: ignore[arg-type]
    if of_torchs_data(data, "Subset"):
        return rows(own_attribute(data, "indices"))
    if of_torchs_data(data, "ConcatDataset"):
        sizes = own_attribute(data, "cumulative_sizes")
        return sizes[-1] if type(sizes) is list and sizes else None
    if of_torchs_data(data, "TensorDataset"):
        tensors = own_attribute(data, "tensors")
        return shape(tensors[0])[0] if type(tensors) is tuple and tensors else None
    if is_table(data):
        chosen = own_attribute(data, "_indices")
        count = getattr(own_attribute(data, "_data") if chosen is None else chosen, "num_rows", None)
        return count if type(count) is int else None
    return None


def is_table(data: object) -> bool:
    """Whether it is a Dataset of the library datasets, whose columns are known."""
    return _of_datasets(data, "Dataset")


def is_stream(data: object) -> bool:
    """Whether it is an IterableDataset of the library datasets, which knows its shards."""
    return _of_datasets(data, "IterableDataset")


def _of_datasets(data: object, name: str) -> bool:
    return type(data).__module__.startswith("datasets.") and type(data).__name__ == name


def of_torchs_data(thing: object, *names: str) -> bool:
    """Whether it is of exactly one of these classes of torch.utils.data."""
    kind = type(thing)
    return kind.__name__ in names and kind.__module__.startswith("torch.utils.data.")


def _values(mapping: Any) -> list[Any]:
    return list(dict.values(mapping)) if is_a(mapping, dict) else []


def _torch() -> Any:
    return sys.modules["torch"]


def start_method(loader: Any = None) -> str:
    """The way in which a DataLoader, or without one the process, starts workers: "fork", "spawn" or "forkserver".

    The process's own way is not fixed by asking: the job may still set it.
    """
    import multiprocessing

    context = own_attribute(loader, LOADERS_CONTEXT)
    method = getattr(type(context), "_name", None) if context is not None else None
    return str(
        method or multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    )


def in_package(path: str) -> str:
    """The path of an installed package's file from the package on; "" for a file that is not installed so."""
    parts = path.replace(os.sep, "/").split("/")
    at = max((place for place, part in enumerate(parts) if part in INSTALLED), default=None)
    return "" if at is None else "/".join(parts[at + 1 :])


def working_folder() -> str:
    """The working folder with the separator at its end; "" if it is gone."""
    try:
        return os.getcwd().rstrip(os.sep) + os.sep
    except OSError:
        return ""


def path_below(path: str, folder: str) -> str:
    """The path from the folder on, as `working_folder` gives it; whole if it leads elsewhere."""
    return path[len(folder) :] if folder and path.startswith(folder) else path
