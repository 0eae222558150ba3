"""The state of a run's folder, which an agent reads as a resource: how far its job has got, and what it left."""

import contextlib
import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from diagnose.capture.bundle import written_in
from diagnose.commands.agents.roots import Roots
from diagnose.diagnosis import Diagnosis
from diagnose.errors import UserError, printable, shown_path
from diagnose.probes.protocol import DIAGNOSIS, DONE, HANG_DUMP, RECORD, SCRATCH, STACKS, STEP_LOG, rank_in
from diagnose.report.views.brief import brief
from diagnose.series import read_without_traces
from diagnose.series.places import is_window, step_logs
from diagnose.series.timing_log import read_timing_log

TEMPLATE = "diagnose://run/{+path}"
_BEGIN = TEMPLATE.partition("{")[0]
_MOST_LISTED = 50
_MOST_NAMED = 8  # windows, and ranks that failed
_NAMES = (DIAGNOSIS, SCRATCH)
_NAMES_OF_RANKS = (DONE, RECORD, STEP_LOG)


class WindowState(msgspec.Struct, frozen=True, kw_only=True):
    """A window of an armed run: its folder, and its verdict in a line, null while no diagnosis is kept."""

    folder: str
    verdict: str | None


class RunState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run's folder.

    Attributes:
        path: of the folder.
        unended: whether `diagnose run` still uses it: the job runs on, or `diagnose run` was killed.
        ranks: number of ranks of the job; null before one of them has finished a window.
        traced: number of ranks that have written their trace.
        failed: ranks without a trace, at most 8, each with the reason.
        steps: of an armed run, the last step of the rank furthest behind and of the one furthest ahead; else null.
        windows: of an armed run, its last 8.
        stood_still: whether dumps or stacks show that the job stood still.
        verdict: the verdict and the next change of the kept diagnosis, in a line; null while none is kept.
        do: the next thing to do.
    """

    path: str
    unended: bool
    ranks: int | None
    traced: int
    failed: dict[int, str]
    steps: tuple[int, int] | None
    windows: tuple[WindowState, ...]
    stood_still: bool
    verdict: str | None
    do: str


def is_state(uri: str) -> bool:
    """Whether the address is that of a run's state."""
    return uri.startswith(_BEGIN)


def listed(roots: Roots) -> Iterator[tuple[str, str]]:
    """The address and the name of each run that is a root or lies in one, the newest first, at most 50."""
    found = {path: path.stat().st_mtime_ns for root in roots.folders for path in _runs_in(root)}
    newest = sorted(found, key=lambda path: -found[path])[:_MOST_LISTED]
    yield from ((_BEGIN + quote(str(path)), printable(path.name)) for path in newest)


def page(roots: Roots, uri: str) -> str:
    """The state as JSON.

    Raises:
        UserError: the folder is outside the roots, or is not that of a run.
    """
    folder = roots.inside(unquote(uri.removeprefix(_BEGIN)))
    if not _is_run(folder):
        raise UserError("no folder of a run", where=folder, do="name a folder that diagnose run has written")
    return msgspec.json.format(msgspec.json.encode(_state(folder)), indent=1).decode()


def _state(folder: Path) -> RunState:
    written, steps = written_in(folder), _last_steps(folder)
    windows = sorted((path for path in folder.iterdir() if is_window(path.name)), key=_step_of)[-_MOST_NAMED:]
    known = written.traces or written.errors or written.left_out
    state = RunState(
        path=shown_path(folder),
        unended=(folder / SCRATCH).is_dir(),
        ranks=written.world_size if known else None,
        traced=len(written.traces),
        failed={rank: printable(written.errors[rank]) for rank in sorted(written.errors)[:_MOST_NAMED]},
        steps=(min(steps), max(steps)) if steps else None,
        windows=tuple(WindowState(folder=path.name, verdict=_verdict(path)) for path in windows),
        stood_still=any(any(folder.glob(name.format("*"))) for name in (HANG_DUMP, STACKS)),
        verdict=_verdict(folder),
        do="",
    )
    return msgspec.structs.replace(state, do=_next(state))


def _next(state: RunState) -> str:
    if state.stood_still:
        return f"diagnose hang {shlex.quote(state.path)}"
    if state.verdict is not None:
        return "call plan"
    if state.unended:
        return "read this again while the job runs"
    captured = state.traced or state.steps is not None
    return "call analyze" if captured else "nothing was captured: diagnose doctor says what a capture can see"


def _runs_in(root: Path) -> list[Path]:
    """The root and the folders in it that are those of runs; none if it is no longer there."""
    try:
        return [path for path in (root, *root.iterdir()) if _is_run(path)]
    except OSError:
        return []


def _is_run(folder: Path) -> bool:
    """Whether it is a folder, not of a window, that holds what `diagnose run` writes besides traces."""
    try:
        names = [] if is_window(folder.name) else os.listdir(folder)
    except OSError:  # no folder, or one that may not be read
        return False
    return any(name in _NAMES or any(rank_in(name, of) is not None for of in _NAMES_OF_RANKS) for name in names)


def _last_steps(folder: Path) -> Sequence[int]:
    """The last step that each rank of an armed run has logged."""
    blocks = [log.blocks[-1] for path in step_logs(folder) if (log := read_timing_log(path)).blocks]
    return [first + each * len(samples) - 1 for first, each, samples, _ in blocks]


def _step_of(window: Path) -> tuple[int, str]:
    return len(window.name), window.name


def _verdict(folder: Path) -> str | None:
    kept = folder / DIAGNOSIS
    with contextlib.suppress(UserError):  # of another version
        told = read_without_traces(kept) if kept.is_file() else None
        return brief(told) if isinstance(told, Diagnosis) else None
    return None
