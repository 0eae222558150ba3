"""The settings that a capture recorded, each under its path in the record: of the job, and of one of its ranks."""

from collections.abc import Iterator, Mapping
from typing import Any

from diagnose.facts import Scalar
from diagnose.trace.record import CaptureRecord

RECORDED = (
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
    "zero",
)
MOST_SETTINGS = 1000
LONGEST_SETTING = 200


def setup_of(record: CaptureRecord) -> dict[str, Scalar]:
    """Flags, numbers and texts by dotted path, such as "dataloader.num_workers"; empty without a record."""
    found = (setting for section in RECORDED for setting in _settings(section, record.get(section)))
    return dict(setting for _, setting in zip(range(MOST_SETTINGS), found, strict=False))


def _settings(path: str, value: Any) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, Mapping):
        for key, entry in value.items():
            yield from _settings(f"{path}.{key}", entry)
    elif isinstance(value, list) and all(isinstance(entry, int | float | str) for entry in value):
        yield path, ", ".join(str(entry) for entry in value)[:LONGEST_SETTING]
    elif isinstance(value, str):
        yield path, value[:LONGEST_SETTING]
    elif isinstance(value, bool | int | float):
        yield path, value


# Those in which the ranks of a job should be alike: how a rank runs, before what it runs.

OF_A_RANK = (
    "torch_settings",
    "environment",
    "machine_samples.limits",
    "cores.usable",
    "cores.quota",
    "device.name",
    "device.total_memory_bytes",
    "versions",
    "infiniband_devices",
    "command",
    *(section for section in RECORDED if section not in ("batch.shapes", "cores.usable", "environment", "world_size")),
)
ALL_ROWS = "dataloader.all_rows"  # which ranks may have a part of each
COMPILED_AGAIN = "compilations.again"
RankSettings = tuple[tuple[str, Scalar], ...]


def rank_settings(record: CaptureRecord) -> RankSettings:
    """Settings and surroundings of a rank by dotted path, and how many pieces of code it compiled again."""
    every = (setting for section in OF_A_RANK for setting in _settings(section, record.get(section)))
    found = [(path, value) for path, value in every if path != ALL_ROWS]
    return (*found[:MOST_SETTINGS], *_compiled_again(record))


def _compiled_again(record: CaptureRecord) -> Iterator[tuple[str, Scalar]]:
    """The number of pieces that were compiled before; a record that says nothing of compiling has none."""
    if "compilations" in record.values:
        pieces = record.get("compilations.compiled") or ()
        yield COMPILED_AGAIN, sum(piece.get("again") is not None for piece in pieces)
