"""The folder of a capture: its choice, its claim, and what is removed from it in the end.

An empty folder is claimed, one that holds anything is left alone. Several parents of one job (`srun diagnose run`)
claim one folder together: the first one makes the claim, the others know it by the job's token.
"""

import contextlib
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from diagnose.probes.bundle.claim import has_marker_of, make_scratch, owner, taken
from diagnose.probes.protocol import (
    ANNOUNCED,
    ASK,
    CLAIM,
    DONE,
    MARKS_FOLDER,
    MEMORY,
    MEMORY_AT_OOM,
    OWNER,
    OWNER_PARTIAL,
    PARENT,
    PARTIAL,
    PULSE,
    RAW,
    RAW_FOLDER,
    RAW_PARTIAL,
    RECORD,
    RUNS,
    SCRATCH,
    TRACE,
    TRIGGER,
    WINDOW_FOLDER,
    default_out,
)

_MOST_FOLDERS = 10_000
_PARTIAL = re.escape(PARTIAL).replace(r"\{\}", "{}")
_OF_RANKS = (CLAIM, ASK, PULSE, MEMORY, MEMORY_AT_OOM, TRACE, RECORD, DONE)
_CLAIM, _ASK, _PULSE, _MEMORY, _AT_OOM, *_COMPLETE = (re.escape(name).replace(r"\{\}", r"\d+") for name in _OF_RANKS)
_AGREED = (_ASK, ANNOUNCED, TRIGGER)
_PARTIALS = (_PARTIAL.format(name, r"\d+") for name in (*_COMPLETE, *_AGREED))
_OURS = "|".join((re.escape(OWNER_PARTIAL), _CLAIM, _PULSE, *_AGREED, *_PARTIALS))
_LEFT_IN_WINDOWS = "|".join((rf"\.{_CLAIM}", *(_PARTIAL.format(name, r"\d+") for name in _COMPLETE)))
_LEFT_IN_RUN = "|".join(_PARTIAL.format(name, r"\d+") for name in (_MEMORY, _AT_OOM))
_MARK = r"[\w.]+"
_RAW = "|".join(map(re.escape, (RAW, RAW_PARTIAL)))
_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_SIBLINGS = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_JOB = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("MASTER_ADDR", "MASTER_PORT"),
)


@dataclass(frozen=True)
class ClaimedFolder:
    """A folder that this parent's job has claimed.

    Attributes:
        folder: absolute, since jobs change directory.
        token: distinguishes this job's files from those of others.
        parent: this parent's rank when the folder is shared with other parents of the job, else None.
        made: the folders that were made for it, the innermost last.
    """

    folder: Path
    token: str
    parent: str | None = None
    made: tuple[Path, ...] = field(default=())

    @property
    def marks(self) -> Path:
        """The folder in which the hooked processes record how far they got."""
        return self.folder / SCRATCH / MARKS_FOLDER

    def others(self) -> bool:
        """Whether other parents that share the folder are still running."""
        mine, any_parent = PARENT.format(self.parent), PARENT.format("")
        with contextlib.suppress(OSError):
            return any(name.startswith(any_parent) and name != mine for name in os.listdir(self.folder / SCRATCH))
        return False

    def release(self, others: list[Path]) -> None:
        """Remove temporary files, here and in the `others` of the job, and the folder if it is empty.

        Of parents that share the folder the last one does. Only files known to be this job's are removed, and no error
        is raised.
        """
        if self.parent is not None:
            with contextlib.suppress(OSError):
                (self.folder / SCRATCH / PARENT.format(self.parent)).unlink(missing_ok=True)
                if any(name.startswith(PARENT.format("")) for name in os.listdir(self.folder / SCRATCH)):
                    return
        for folder in (*others, self.folder):
            with contextlib.suppress(OSError):
                _remove_scratch(folder, self.token)
        _unmake(self.made)


def is_first_rank(env: Mapping[str, str]) -> bool:
    """Whether this is the one parent, or the parent of rank 0, which reports for all."""
    return rank_of(env) == "0"


def rank_of(env: Mapping[str, str]) -> str:
    """The rank of this parent among those of the job."""
    return next((env[name] for name in _RANK if env.get(name)), "0")


def has_siblings(env: Mapping[str, str]) -> bool:
    """Whether each rank of the job, or each host, has a `diagnose run` of its own."""
    return any(env.get(name, "1") not in ("", "1") for name in _SIBLINGS)


def parents_of(env: Mapping[str, str]) -> int:
    """Number of `diagnose run` in the job: one for each rank, or for each host; 1 if no variable gives more."""
    return max((int(env[name]) for name in _SIBLINGS if env.get(name, "").isdecimal()), default=1)


def claimed(out: Path | None, env: Mapping[str, str]) -> ClaimedFolder:
    """The folder `out` (None: one named after the job or the time), or the first of `-2`, `-3`, ... that is free.

    Raises:
        OSError: no folder can be made or written.
        ValueError: `out` has no name of its own, and is not empty.
    """
    shared = has_siblings(env)
    token = _token_of(env) if shared else secrets.token_hex(8)
    parent = re.sub(r"\W", "-", rank_of(env)) if shared else None
    wanted = Path(os.path.abspath(out if out is not None else _default_out(env)))
    for folder in numbered(wanted):
        had = ClaimedFolder(folder, token, parent, _made(folder))
        try:
            if _is_had(folder, token, parent):
                with contextlib.suppress(FileExistsError):
                    had.marks.mkdir()
                return had
        except BaseException:
            had.release([])
            raise
    raise AssertionError("an endless series ended")


def numbered(wanted: Path) -> Iterator[Path]:
    """The wanted folder, then numbered ones that take its place if it is in use: `-2`, `-3`, ...

    Raises:
        OSError: so many are in use that there is no further one.
        ValueError: it has no name of its own, and is in use.
    """
    yield wanted
    for count in range(2, _MOST_FOLDERS):
        yield wanted.with_name(f"{wanted.name}-{count}")
    raise FileExistsError(f"{_MOST_FOLDERS} folders of this name are there already", str(wanted))


def is_ours(folder: Path, token: str) -> bool:
    """Whether the job with `token` has claimed the folder, or a rank of it has written there."""
    return owner(folder) == token or has_marker_of(folder, token)


def _is_had(folder: Path, token: str, parent: str | None) -> bool:
    had = taken(folder, token)
    if parent is None:
        return had
    if not had:  # the other parents may be done already
        if not has_marker_of(folder, token) or (folder / DONE.format(parent)).exists():
            return False
        make_scratch(folder, token)
    try:
        os.close(os.open(folder / SCRATCH / PARENT.format(parent), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:  # of an earlier run of the same name, which was killed
        return False
    return True


def _made(folder: Path) -> tuple[Path, ...]:
    """Make the folder and missing ones above it; return those that were made."""
    missing = [folder]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    made: list[Path] = []
    for path in reversed(missing):
        try:
            path.mkdir()
        except FileExistsError:
            if not path.is_dir():
                _unmake(tuple(made))
                raise NotADirectoryError(20, "a file is in its place", str(path)) from None
        except BaseException:
            _unmake(tuple(made))
            raise
        else:
            made.append(path)
    return tuple(made)


def _unmake(made: tuple[Path, ...]) -> None:
    with contextlib.suppress(OSError):  # not empty
        for path in reversed(made):
            path.rmdir()


def _default_out(env: Mapping[str, str]) -> str:
    """Default folder: one for all parents of a job, else one named for the time."""
    names = _job_of(env) if has_siblings(env) else ()
    if not names:
        return default_out()
    return os.path.join(RUNS, "job-" + re.sub(r"[^\w.]+", "-", ".".join(env[name] for name in names)))


def _job_of(env: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that identify the job in all of its parents; empty if none does."""
    return next((names for names in _JOB if all(env.get(name) for name in names)), ())


def _token_of(env: Mapping[str, str]) -> str:
    """A token that is the same for all parents of a job."""
    names = (*_job_of(env), "SLURM_RESTART_COUNT", *_SIBLINGS[:1])
    text = "\0".join(f"{name}={env.get(name)}" for name in names)
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _remove_scratch(folder: Path, token: str) -> None:
    """Remove the scratch folder if it is the job's, and files that a killed rank left in the run and its windows.

    Unknown files in the scratch folder stay, and the folder with them.
    """
    if owner(folder) != token:
        return
    with _opened(".", _number(folder)) as run:
        _remove_files(run, _LEFT_IN_RUN)
    for window in folder.glob(WINDOW_FOLDER.format("*")):
        with _opened(window.name, _number(folder)) as left:
            _remove_files(left, _LEFT_IN_WINDOWS)
    with _opened(SCRATCH, _number(folder)) as scratch:
        if scratch is None:
            return
        for name in os.listdir(scratch):
            if name == MARKS_FOLDER or name.startswith(RAW_FOLDER):
                with _opened(name, os.dup(scratch)) as inner:
                    _remove_files(inner, _MARK if name == MARKS_FOLDER else _RAW, empty=name == MARKS_FOLDER)
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=scratch)
        _remove_files(scratch, _OURS)
        if os.listdir(scratch) == [OWNER]:
            os.unlink(OWNER, dir_fd=scratch)
    os.rmdir(folder / SCRATCH)


def _number(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@contextlib.contextmanager
def _opened(name: str, within: int) -> Iterator[int | None]:
    """The folder `name`, without following links; None if it is no folder, or another user's. Closes `within`."""
    number = None
    try:
        with contextlib.suppress(OSError):
            number = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
        is_own = number is not None and os.fstat(number).st_uid == os.geteuid()
        yield number if is_own else None
    finally:
        os.close(within)
        if number is not None:
            os.close(number)


def _remove_files(folder: int | None, names: str, *, empty: bool = False) -> None:
    """Remove this user's files and links with these names."""
    if folder is None:
        return
    for name in os.listdir(folder):
        if not re.fullmatch(names, name):
            continue
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_own = status.st_uid == os.geteuid() and not stat.S_ISDIR(status.st_mode)
            if is_own and not (empty and status.st_size):
                os.unlink(name, dir_fd=folder)
