"""The settings of the job that a capture recorded, each under its path in the record."""

from collections.abc import Iterator, Mapping
from typing import Any

from diagnose.facts import Scalar
from diagnose.trace.record import CaptureRecord

SECTIONS = (
    "batch.shapes",
    "compiled",
    "cores.usable",
    "dataloader",
    "ddp",
    "environment",
    "fsdp",
    "liger",
    "model",
    "optimizer",
    "profiler",
    "training_arguments",
    "training_loop",
    "world_size",
)
MOST_SETTINGS = 1000
LONGEST_TEXT = 200


def setup_of(record: CaptureRecord) -> dict[str, Scalar]:
    """Flags, numbers and texts by dotted path, such as "dataloader.num_workers"; empty without a record."""
    found = (setting for section in SECTIONS for setting in _settings(section, record.get(section)))
    return dict(setting for _, setting in zip(range(MOST_SETTINGS), found, strict=False))


def _settings(path: str, value: Any) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _settings(f"{path}.{key}", entry)
    elif isinstance(value, list) and all(isinstance(entry, int | float | str) for entry in value):
        yield path, ", ".join(str(entry) for entry in value)[:LONGEST_TEXT]
    elif isinstance(value, str):
        yield path, value[:LONGEST_TEXT]
    elif isinstance(value, bool | int | float):
        yield path, value
