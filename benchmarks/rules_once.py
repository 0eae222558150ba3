"""Reading and checking all rule files takes longer than the analysis of a small trace; thousands of them share it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from diagnose import analysis
from diagnose.metrics import REGISTRY


@contextmanager
def rules_read_once() -> Iterator[None]:
    """Analyses inside the block use the rules as they are now."""
    rules = analysis.load_rules((), {name: metric.unit for name, metric in REGISTRY.items()})
    with mock.patch.object(analysis, "load_rules", return_value=rules):
        yield
