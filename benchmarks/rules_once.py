"""Reading and checking all rule files takes longer than the analysis of a small trace; thousands of them share it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from diagnose.analysis import job
from diagnose.metrics import units
from diagnose.rule import Rule


@contextmanager
def rules_read_once() -> Iterator[None]:
    """Analyses inside the block use the builtin rules as they are now; those with rules of their own read all anew."""
    load = job.load_rules
    rules = load((), units())

    def loaded(dirs: Iterable[Path], known: Mapping[str, str], *, cache: bool = False) -> tuple[Rule, ...]:
        return load(dirs, known, cache=cache) if dirs else rules

    with mock.patch.object(job, "load_rules", loaded):
        yield
