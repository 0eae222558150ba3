"""The range in which torch.compile compiles; it is timed and in no trace, which has torch's own."""

from __future__ import annotations

from ..current_session import session
from ..guard import quietly
from ..hand_over import around_compilations
from ..protocol import COMPILE_RANGE
from ..recording.range_times import times


def install() -> None:
    """Time compilations from now on; without a session, do nothing."""
    if session() is not None:
        quietly(_watch)


def _watch() -> None:
    around_compilations(_begins, _ends, "compilations are not timed")


def _begins(*_: object) -> None:
    if times.on:
        times.opened(COMPILE_RANGE)


def _ends(*_: object) -> None:
    times.closed(COMPILE_RANGE)
