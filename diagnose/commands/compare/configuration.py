"""Differences of the configuration: recorded settings, versions, and properties that the traces show."""

from collections.abc import Iterator, Mapping

from diagnose.commands.compare.answer import Changed, NotCompared
from diagnose.commands.compare.side import Side
from diagnose.facts import Scalar

VERSIONS = "versions."
_OF_THE_CAPTURE = "profiler."
_UNRECORDED = ("captured_with", "compile_mode", "second_profiler", "uses_cuda_graphs", "uses_liger_loss")


def configuration_changes(before: Side, after: Side) -> tuple[Changed, ...]:
    """Differences in recorded settings, or in what the traces show if a record is missing, and in versions."""
    seen = tuple(_known_to_both(before.seen, after.seen))
    if before.setup and after.setup:
        unrecorded = (one for one in seen if one.what in _UNRECORDED)
        return (*_settings(before.setup, after.setup), *_versions(before, after), *unrecorded)
    return (*seen, *_versions(before, after))


def not_compared(before: Side, after: Side) -> tuple[NotCompared, ...]:
    """Sides without a record: only a part of their settings is known."""
    silent = [name for name, side in (("A", before), ("B", after)) if not (side.setup or side.predicted_ns)]
    if not silent:
        return ()
    verb = "comes" if len(silent) == 1 else "come"
    because = f"{' and '.join(silent)} {verb} without a capture record"
    return (NotCompared(what="configuration", because=because, do="capture with diagnose run"),)


def _settings(before: Mapping[str, Scalar], after: Mapping[str, Scalar]) -> Iterator[Changed]:
    """Settings that differ; null on a side whose record lacks it. Those of the capture itself come last."""
    for path in sorted({*before, *after}, key=lambda path: (path.startswith(_OF_THE_CAPTURE), path)):
        if before.get(path) != after.get(path):
            yield Changed(what=path, before=before.get(path), after=after.get(path))


def _known_to_both(before: Mapping[str, Scalar], after: Mapping[str, Scalar]) -> Iterator[Changed]:
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield Changed(what=name, before=before[name], after=after[name])


def _versions(before: Side, after: Side) -> Iterator[Changed]:
    for name in sorted(before.versions.keys() & after.versions.keys()):
        if before.versions[name] != after.versions[name]:
            yield Changed(what=VERSIONS + name, before=before.versions[name], after=after.versions[name])
