"""The file that holds the predictions: one line for each, in a folder of the user's alone, on this machine.

The folder is opened once and all that follows goes through its handle, links are not followed, and a file that belongs
to another, that others may write to, or in which no line is a prediction, is left alone. A writer holds a lock of
`fcntl` on the file itself, which NFS knows too: a client reads afresh what it has locked. A line is appended by one
write; if a process dies within it, the next one begins a new line, and the torn one is counted as unreadable.
"""

import contextlib
import errno
import fcntl
import os
import stat as modes
import time
from collections.abc import Iterator
from pathlib import Path

from diagnose.commands.ledger.lines import BEGINNING, RecordedPredictions, line_of, predictions_of
from diagnose.commands.ledger.prediction import Prediction
from diagnose.trace.ownership import is_users_alone
from diagnose.trace.parts import is_part, part_of

NAME = "promises.jsonl"
LARGEST_BYTES = 1 << 20  # some 3,000 predictions
PATIENCE_S = 10.0
_LOOK_EVERY_S = 0.01
_OPENED = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def append(folder: Path, prediction: Prediction) -> bool:
    """Append the prediction; return False if it is there already. A full file loses its oldest half.

    Raises:
        OSError: folder or file cannot be used.
    """
    line = line_of(prediction)
    with _opened_folder(folder, create=True) as inside, _locked(inside, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
        content = _content(file)
        recorded = _own(content)
        if any(known.key == prediction.key for known in recorded.predictions):
            return False
        if len(content) + len(line) >= LARGEST_BYTES:
            newest = recorded.predictions[len(recorded.predictions) // 2 :]
            _replace(inside, b"".join(map(line_of, (*newest, prediction))))
        else:
            _append(file, line if content[-1:] in (b"", b"\n") else b"\n" + line)
    return True


def read(folder: Path) -> RecordedPredictions:
    """The predictions that are kept; none if there is no file yet.

    Raises:
        OSError: folder or file cannot be used.
    """
    try:
        with _opened_folder(folder) as inside:
            file = _open(inside, os.O_RDONLY)
            try:
                return _own(_content(file))
            finally:
                os.close(file)
    except FileNotFoundError:
        return RecordedPredictions()


def clear(folder: Path) -> None:
    """Removes the file.

    Raises:
        OSError: folder or file cannot be used.
    """
    with contextlib.suppress(FileNotFoundError), _opened_folder(folder) as inside, _locked(inside, os.O_RDWR) as file:
        _own(_content(file))
        os.unlink(NAME, dir_fd=inside)


@contextlib.contextmanager
def _opened_folder(folder: Path, create: bool = False) -> Iterator[int]:
    """A handle of the folder, which is the user's alone and no link."""
    if create:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        why = "a link, or no folder" if error.errno in (errno.ELOOP, errno.ENOTDIR) else error.strerror
        raise type(error)(error.errno, why, str(folder)) from error
    try:
        if not is_users_alone(os.fstat(handle)):
            raise PermissionError(errno.EACCES, "not a folder of the user's alone", str(folder))
        yield handle
    finally:
        os.close(handle)


@contextlib.contextmanager
def _locked(inside: int, how: int) -> Iterator[int]:
    """The file, opened and locked; it is opened again if it was replaced before the lock was taken."""
    until = time.monotonic() + PATIENCE_S
    while True:
        file = _open(inside, how)
        try:
            _lock(file, until)
            if _is_still_there(inside, file):
                yield file
                return
        finally:
            os.close(file)


def _open(inside: int, how: int) -> int:
    """Open the file; raise OSError if it is no regular file that is the user's alone."""
    try:
        file = os.open(NAME, how | _OPENED, 0o600, dir_fd=inside)
    except OSError as error:
        why = "a link" if error.errno == errno.ELOOP else error.strerror
        raise type(error)(error.errno, why, NAME) from error
    stat = os.fstat(file)
    if not modes.S_ISREG(stat.st_mode) or not is_users_alone(stat):
        os.close(file)
        raise PermissionError(errno.EACCES, "not a file of the user's alone", NAME)
    return file


def _lock(file: int, until: float) -> None:
    while True:
        try:
            return fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > until:
                raise TimeoutError(errno.ETIMEDOUT, "another process keeps it locked", NAME) from None
            time.sleep(_LOOK_EVERY_S)


def _is_still_there(inside: int, file: int) -> bool:
    try:
        return os.path.samestat(os.stat(NAME, dir_fd=inside, follow_symlinks=False), os.fstat(file))
    except FileNotFoundError:
        return False


def _content(file: int) -> bytes:
    if os.fstat(file).st_size > LARGEST_BYTES:
        raise OSError(errno.EFBIG, "larger than any ledger of promises", NAME)
    parts: list[bytes] = []
    while part := os.pread(file, LARGEST_BYTES, sum(map(len, parts))):
        parts.append(part)
    return b"".join(parts)


def _own(content: bytes) -> RecordedPredictions:
    """The predictions in the content; content that is no track record is refused, since the file is not ours."""
    recorded = predictions_of(content)
    if recorded.unreadable and not recorded.predictions and not content.startswith(BEGINNING):
        raise OSError(errno.EINVAL, "no ledger of promises: no line of it is one", NAME)
    return recorded


def _append(file: int, line: bytes) -> None:
    """Append the whole line or nothing."""
    before = os.fstat(file).st_size
    if os.write(file, line) != len(line):
        os.ftruncate(file, before)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), NAME)


def _replace(inside: int, content: bytes) -> None:
    """Write the file anew, whole or not at all.

    The caller holds its lock, so that leftovers of a killed process can go.
    """
    for left in (each for each in os.listdir(inside) if is_part(each, NAME)):
        os.unlink(left, dir_fd=inside)
    name = part_of(NAME)
    file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPENED, 0o600, dir_fd=inside)
    try:
        try:
            _append(file, content)
            os.fsync(file)
        finally:
            os.close(file)
        os.replace(name, NAME, src_dir_fd=inside, dst_dir_fd=inside)
    except BaseException:
        os.unlink(name, dir_fd=inside)
        raise
