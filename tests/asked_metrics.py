"""Jobs of which only what a metric asks for is made up."""

from types import SimpleNamespace
from typing import Any

import pytest

from diagnose.facts import Unknown
from diagnose.trace.record import CaptureRecord


def job(record: dict[str, Any] | None = None, **facts: Any) -> Any:
    """A job with this record, and these attributes of what is measured."""
    made = SimpleNamespace(record=CaptureRecord(record or {}), unrecorded=Unknown("not recorded", None), **facts)
    made.once = lambda derive: derive(made)
    return made


def fix(monkeypatch: pytest.MonkeyPatch, module: Any, **values: Any) -> None:
    """Metrics that a module asks for come to these values."""
    for name, value in values.items():
        monkeypatch.setattr(module, name, lambda *_, of=value: of)
