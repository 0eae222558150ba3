"""The folder of a tune: the runs so far, each written as soon as it is judged, so that a kill loses no finished one.

A file takes its name when its content is on the disk. The lock is a handle that the jobs inherit: as long as a job of a
tune that was killed still runs, no other tune measures next to it.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from diagnose.capture.folder import numbered
from diagnose.commands.tune.answer import Tuning
from diagnose.decoding import UNREADABLE
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.reading import diagnosis_in
from diagnose.errors import UserError, printable
from diagnose.probes.protocol import RUNS
from diagnose.trace.parts import held, part_of, remove_abandoned

STATE, LOCK, TABLE, PAGE, PATCH = "tune.json", "tune.lock", "ladder.csv", "tune.html", "patch.json"
_MARK = b"the lock of a tune by diagnose\n"
PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.5
_LARGEST_BYTES = 64 << 20
_AGAIN = "name another folder with --out, or remove this one"


def default_folder(command: Sequence[str]) -> Path:
    """Default folder for a tune of this command in this working folder, so that the same command finds it again."""
    told = hashlib.sha256("\0".join([os.getcwd(), *command]).encode(errors="surrogateescape")).hexdigest()[:8]
    name = next((Path(word).stem for word in command if word.endswith((".py", ".pyw"))), "job")
    return Path(RUNS) / f"tune-{name}-{told}"


def folder_for(wanted: Path) -> Path:
    """The folder, or the first of `-2`, `-3`, ... that is empty or holds a tune: other folders stay as they are.

    Raises:
        UserError: none can be used.
    """
    try:
        return next(path for path in numbered(Path(os.path.abspath(wanted))) if not _has_others(path))
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else "") or str(error)
        raise UserError("cannot use the folder", where=wanted, why=why, do="name another with --out") from error


def _has_others(folder: Path) -> bool:
    """Whether the folder holds files and no tune of ours, whose lock bears our mark or whose state can be read."""
    try:
        there = os.listdir(folder)
    except FileNotFoundError:
        return False
    begun = (_MARK, b"") if there == [LOCK] else (_MARK,)  # a kill may leave a lock without its mark
    return bool(there) and not (_begin_of(folder / LOCK) in begun or _holds_state(folder))


def _begin_of(lock: Path) -> bytes | None:
    with contextlib.suppress(OSError):
        handle = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(len(_MARK))
    return None


def _holds_state(folder: Path) -> bool:
    try:
        return (folder / LOCK).is_file() and state_in(folder) is not None
    except UserError:
        return False


class TuneFolder:
    """A folder for all runs of a tune, made if it does not exist.

    Args:
        path: the folder.

    Raises:
        UserError: it cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
            if not os.fstat(self._lock).st_size:
                os.write(self._lock, _MARK)
        except OSError as error:
            raise UserError("cannot use the folder", where=path, why=error.strerror or str(error)) from error
        os.set_inheritable(self._lock, True)

    def lock(self, patience_s: float = PATIENCE_S, waits: Callable[[], object] = lambda: None) -> None:
        """Take the folder, waiting for a job of an earlier tune to end; `waits` is called when the wait begins.

        Raises:
            UserError: something still holds it after `patience_s`.
        """
        until, waited = time.monotonic() + patience_s, False
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return remove_abandoned(self.path)
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    return  # a file system without locks
            if time.monotonic() >= until:
                raise UserError(
                    "another tune is at work in the folder, or a job that it left", where=self.path,
                    do="wait for it, or end it",
                )  # fmt: skip
            if not waited:
                waits()
            waited = True
            time.sleep(_LOOK_EVERY_S)

    def read(self) -> Tuning | None:
        """The runs so far, as `state_in` reads them."""
        return state_in(self.path)

    def write(self, tuning: Tuning) -> None:
        """Write the runs so far, whole or not at all."""
        self.put(STATE, tuning.to_json().encode())

    def keep(self, number: int, diagnosis: Diagnosis) -> str:
        """Write the diagnosis of a run to a file, and return its name."""
        name = f"run-{number}.json"
        self.put(name, diagnosis.to_json().encode())
        return name

    def diagnosis(self, name: str) -> Diagnosis:
        """The diagnosis in a file of the folder.

        Raises:
            UserError: it cannot be read.
        """
        path = self.path / Path(name).name
        try:
            return diagnosis_in(path.read_bytes(), path)
        except OSError as error:
            raise UserError("cannot go on with the tune", where=path, why=error.strerror or "", do=_AGAIN) from error

    def put(self, name: str, content: bytes) -> None:
        """Write a file that takes its name once its content is on the disk.

        Raises:
            UserError: it cannot be written.
        """
        try:
            partial = self.path / part_of(name)
            handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            held(handle)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(partial, 0o644)
                os.replace(partial, self.path / name)
            except BaseException:
                os.unlink(partial)
                raise
        except OSError as error:
            raise UserError("cannot write", where=self.path / name, why=error.strerror or str(error)) from error


def state_in(folder: Path) -> Tuning | None:
    """The runs of the tune in the folder; None if there are none.

    Raises:
        UserError: the file is not ours, or of another version.
    """
    path = folder / STATE
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UserError("this is not the state of a tune", where=path, why="it is too large", do=_AGAIN)
        tuning = msgspec.json.decode(path.read_bytes(), type=Tuning)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError("cannot read the state", where=path, why=error.strerror or str(error)) from error
    except UNREADABLE as error:
        raise UserError("this is not the state of a tune", where=path, why=printable(str(error)), do=_AGAIN) from error
    if tuning.schema_version != Tuning.version():
        why = f"its schema_version is {tuning.schema_version}, not {Tuning.version()}"
        raise UserError("cannot go on with the tune", where=path, why=why, do=_AGAIN)
    return tuning
