"""Ownership of a bundle: the folder of one capture, which the parent (`diagnose run`) and the ranks fill together.

One job claims the folder before it writes, by a folder `.diagnose` in it that nobody else makes. Temporary files lie in
there too, so that tidying up touches nothing else. `protocol` names the files.
"""

from __future__ import annotations

import json
import os
import stat
import time
from pathlib import Path

from ..config import from_environment
from ..protocol import DONE, OWNER, OWNER_PARTIAL, SCRATCH

CLAIM_BYTES = 1024
_LARGEST_BYTES = 1 << 16
_WAIT_FOR_OWNER_S = 10.0  # between two system calls of another process, or until a network file system shows it
_POLL_EVERY_S = 0.05
_NEW_S = 60.0


def parents_token(out: Path) -> str | None:
    """The token of the `diagnose run` above this process; None without one, or when it writes elsewhere than `out`."""
    try:
        given = from_environment()
    except (ValueError, RecursionError):
        return None
    if given is None or not isinstance(given.out, str) or not isinstance(given.token, str):
        return None
    return given.token if os.path.abspath(given.out) == os.path.abspath(out) else None


def scratch_of(folder: Path) -> Path | None:
    """The scratch folder of a claimed bundle; None when the bundle is not claimed."""
    scratch = folder / SCRATCH
    return scratch if owner(folder) is not None else None


def owner(folder: Path) -> str | None:
    """The token of the job that has claimed `folder`; None if no job has, or it cannot be read."""
    claim = json_object(folder / SCRATCH / OWNER)
    token = claim.get("token") if claim is not None else None
    return token if isinstance(token, str) else None


def has_marker_of(folder: Path, token: str) -> bool:
    """Whether a rank of the job with `token` has finished a window there."""
    return any((json_object(path) or {}).get("token") == token for path in folder.glob(DONE.format("*")))


def taken(folder: Path, token: str) -> bool:
    """Claim a folder that exists and is empty; whether this job holds it now, or did already.

    Raises:
        OSError: the folder cannot be read or written.
    """
    if os.listdir(folder) or not make_scratch(folder, token):
        return awaited_owner(folder) == token
    if os.listdir(folder) == [SCRATCH]:
        return True
    _unmake_scratch(folder)  # another job came and went between the two looks
    return False


def make_scratch(folder: Path, token: str) -> bool:
    """Claim `folder`, whatever is in it; False when it is claimed already.

    Raises:
        OSError: the folder cannot be written.
    """
    scratch = folder / SCRATCH
    try:
        scratch.mkdir(0o700)
    except FileExistsError:
        return False
    incomplete = scratch / OWNER_PARTIAL
    try:
        incomplete.write_text(json.dumps({"token": token}), encoding="utf-8")
        incomplete.replace(scratch / OWNER)
    except OSError:  # a full disk, on which a claim of nobody's would stay
        _unmake_scratch(folder)
        raise
    return True


def awaited_owner(folder: Path) -> str | None:
    """The token as `owner` reads it, after waiting for one that is just being written."""
    until = time.monotonic() + _WAIT_FOR_OWNER_S
    while True:
        token_there = owner(folder)
        if token_there is not None or time.monotonic() > until or not _is_being_made(folder / SCRATCH):
            return token_there
        time.sleep(_POLL_EVERY_S)


def json_object(path: Path) -> dict[str, object] | None:
    """The object in a small JSON file; None when it is anything else. Links, pipes and devices are not opened."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(number, "rb") as file:
        try:
            text = file.read(_LARGEST_BYTES + 1) if stat.S_ISREG(os.fstat(number).st_mode) else b""
            content = json.loads(text) if len(text) <= _LARGEST_BYTES else None
        except (OSError, ValueError, RecursionError):
            return None
    return content if isinstance(content, dict) else None


def _is_being_made(scratch: Path) -> bool:
    """Whether the claim is being written: then its folder is new and holds nothing but the owner's file."""
    try:
        is_new = abs(time.time() - scratch.lstat().st_mtime) < _NEW_S
        return is_new and not scratch.is_symlink() and set(os.listdir(scratch)) <= {OWNER, OWNER_PARTIAL}
    except OSError:
        return False


def _unmake_scratch(folder: Path) -> None:
    for name in (OWNER_PARTIAL, OWNER):
        (folder / SCRATCH / name).unlink(missing_ok=True)
    (folder / SCRATCH).rmdir()
