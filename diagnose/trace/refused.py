"""The changes that a job refuses, by a rank's record: asked at its capture, or of the patch that it ran with."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from diagnose.probes.apply.reasons import JOB, PATCH
from diagnose.trace.record import CaptureRecord


class Refused(msgspec.Struct, frozen=True):
    """A value that a job refuses, or any other than the present one (None), and what that binds: "job" or "patch".

    `unless_set` is the key of the target with which the value would do.
    """

    target: str
    key: str
    value: bool | int | float | str | None
    because: str
    binds: str
    unless_set: str = ""


def refused_by(record: CaptureRecord) -> tuple[Refused, ...]:
    """All refusals in the record; none if the record does not give what its refusals bind."""
    return refused_in([*(record.get("refuses") or ()), *(record.get("refused") or ())])


def refused_in(entries: Iterable[object]) -> tuple[Refused, ...]:
    """The refusals in the entries, as the probe writes them."""
    found = (_refused(entry) for entry in entries if isinstance(entry, Mapping))
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _refused(entry: Mapping[str, Any]) -> Refused | None:
    target, key, because, binds = (entry.get(name) for name in ("target", "key", "because", "binds"))
    if not (target and key and because) or binds not in (JOB, PATCH):
        return None
    return Refused(str(target), str(key), entry.get("value"), str(because), binds, str(entry.get("unless_set") or ""))
