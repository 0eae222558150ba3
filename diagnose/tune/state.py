"""The folder of a tune: the runs so far, each written as soon as it is judged, so that a kill loses no finished one.

A file takes its name when its content is on the disk. The lock is a handle that the jobs inherit: as long as a job of a
tune that was killed still runs, nobody measures beside it.
"""

import errno
import fcntl
import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from diagnose.decoding import UNREADABLE
from diagnose.diagnosis import Diagnosis, to_json
from diagnose.diagnosis.reading import diagnosis_in
from diagnose.diagnosis.tuning import TUNING_VERSION, Tuning
from diagnose.errors import UserError, printable
from diagnose.probes.protocol import RUNS

STATE, LOCK, LADDER, PAGE, PATCH = "tune.json", "tune.lock", "ladder.csv", "tune.html", "patch.json"
_PARTIAL = ".part"
PATIENCE_S = 600.0
_LOOK_EVERY_S = 0.5
_LARGEST_BYTES = 64 << 20
_AGAIN = "name another folder with --out, or remove this one"


def default_folder(command: Sequence[str]) -> Path:
    """Where the tune of this command in this working folder is kept, so that the same command finds it again."""
    told = hashlib.sha256("\0".join([os.getcwd(), *command]).encode(errors="surrogateescape")).hexdigest()[:8]
    name = next((Path(word).stem for word in command if word.endswith((".py", ".pyw"))), "job")
    return Path(RUNS) / f"tune-{name}-{told}"


class TuneFolder:
    """A folder for all runs of a tune, made where it is not there.

    Args:
        path: the folder.

    Raises:
        UserError: it cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
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
                return self._remove_abandoned()
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

    def _remove_abandoned(self) -> None:
        """What a tune that was killed had not yet given its name."""
        for partial in self.path.glob(f".*{_PARTIAL}"):
            partial.unlink(missing_ok=True)

    def read(self) -> Tuning | None:
        """The runs so far, as `state_in` reads them."""
        return state_in(self.path)

    def write(self, tuning: Tuning) -> None:
        """The runs so far, whole or not at all."""
        self.put(STATE, msgspec.json.format(msgspec.json.encode(tuning), indent=1))

    def keep(self, number: int, diagnosis: Diagnosis) -> str:
        """The diagnosis of a run in a file, whose name is returned."""
        name = f"run-{number}.json"
        self.put(name, to_json(diagnosis).encode())
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
        """A file that takes its name when its content is on the disk.

        Raises:
            UserError: it cannot be written.
        """
        try:
            handle, partial = tempfile.mkstemp(prefix=f".{name}.", suffix=_PARTIAL, dir=self.path)
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
    """The runs of the tune in the folder; None where there are none.

    Raises:
        UserError: the file is none of ours, or of another version.
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
    if tuning.schema_version != TUNING_VERSION:
        why = f"its schema_version is {tuning.schema_version}, not {TUNING_VERSION}"
        raise UserError("cannot go on with the tune", where=path, why=why, do=_AGAIN)
    return tuning
