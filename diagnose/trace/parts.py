"""Names of unfinished files that only this project gives, so that the remains of a killed process can be recognised.

Such a name has the project's mark, a random number, and a token that only fits this number and this user. A user's own
draft has no such name. A process that works on a part holds a lock on it; a part without a lock is abandoned.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat as modes
from pathlib import Path

ENDING = ".part"
_MARK = "diagnose"
_NAME = re.compile(
    rf"(?P<of>.*)\.{_MARK}-(?P<number>[0-9a-f]{{16}})-(?P<token>[0-9a-f]{{16}}){re.escape(ENDING)}", re.DOTALL
)
_LONGEST = 100  # characters of the name that it is to have: names have an end


def part_of(name: str) -> str:
    """A new name for what is to be called `name`; a hidden one."""
    number = secrets.token_hex(8)
    return f".{name[:_LONGEST]}.{_MARK}-{number}-{_token(number)}{ENDING}"


def is_part(name: str, of: str | None = None) -> bool:
    """Whether this user's process gave the name to a part: of what is to be called `of`, or of anything."""
    found = _NAME.fullmatch(name)
    if found is None or not secrets.compare_digest(found["token"], _token(found["number"])):
        return False
    return of is None or found["of"] == f".{of[:_LONGEST]}"


def remove_abandoned(folder: Path, of: str | None = None) -> None:
    """Removes the parts that this user's processes left in the folder and that no process holds; nothing else. Never
    fails.
    """
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if is_part(name, of):
                with contextlib.suppress(OSError):
                    _remove(folder / name)


def held(handle: int) -> bool:
    """Lock the part; return whether this process holds it. Without locks in the file system it counts as held."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _remove(part: Path) -> None:
    """Remove the part if it is the user's; raise OSError if another process holds it or it cannot be opened."""
    handle = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        stat = os.fstat(handle)
        if stat.st_uid != os.geteuid():
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if modes.S_ISDIR(stat.st_mode):
            shutil.rmtree(part, ignore_errors=True)
        elif modes.S_ISREG(stat.st_mode):
            os.unlink(part)
    finally:
        os.close(handle)


def _token(number: str) -> str:
    return hashlib.sha256(f"{_MARK} part {number} of {os.geteuid()}".encode()).hexdigest()[:16]
