"""Ask a job that is not armed for a window, by the daemon dynolog: torch's profiler listens to it.

A request goes to the daemon's port: its length as a native 32-bit integer, then one JSON object; the answer comes the
same way. The daemon's own client (`dyno gputrace`) sends the same, under options that differ between its versions.
"""

import contextlib
import json
import os
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from diagnose.errors import UserError, printable

PORT = 1778
VARIABLE = "KINETO_USE_DAEMON"
MOST_PROCESSES = 1024
_ANSWERS_WITHIN_S = 5.0
_LARGEST_ANSWER = 1 << 20
_LENGTH = struct.Struct("=i")
_POLL_EVERY_S = 0.2
NEXT_TIME = (
    f"start the job with {VARIABLE}=1 beside a daemon (dynolog --enable_ipc_monitor) next time, "
    "or with diagnose run --arm, which needs none"
)


def ask(folder: Path, host: str, pids: Sequence[int], steps: int) -> list[Path]:
    """Ask for a trace of so many steps of each of these processes, or of all that listen; the files that will come.

    Raises:
        UserError: the daemon cannot be reached, refuses, or knows no such process.
    """
    for pid in pids:
        _refuse_deaf(pid)
    _make(folder)
    config = (
        f"ACTIVITIES_LOG_FILE={folder.resolve()}/trace.json",
        "PROFILE_START_ITERATION=0",
        "PROFILE_START_ITERATION_ROUNDUP=1",
        f"ACTIVITIES_ITERATIONS={steps}",
        "PROFILE_REPORT_INPUT_SHAPES=true",
    )
    asked = {"fn": "setKinetOnDemandRequest", "config": "\n".join(config), "job_id": _job(), "pids": [*pids] or [0]}
    answer = _answer(host, json.dumps({**asked, "process_limit": MOST_PROCESSES}).encode())
    triggered = [pid for pid in _numbers(answer, "activityProfilersTriggered") if _may_live(pid, host)]
    if not triggered:
        busy = answer.get("activityProfilersBusy")
        why = f"{busy} are being recorded already" if busy else "the daemon knows no such process that listens"
        raise UserError("no process records", where=host, why=why, do="try again later" if busy else NEXT_TIME)
    return [folder / f"trace_{pid}.json" for pid in triggered]


def written(files: Sequence[Path], within_s: float) -> list[Path]:
    """Wait so many seconds at most for the files, and return those that are there.

    torch gives a trace its name when it is whole.
    """
    until = time.monotonic() + within_s
    while not all(file.is_file() for file in files) and time.monotonic() < until:
        time.sleep(_POLL_EVERY_S)
    return [file for file in files if file.is_file()]


def _refuse_deaf(pid: int) -> None:
    """Refuse a process of this host that is known not to listen.

    Raises:
        UserError: it was started without the variable.
    """
    with contextlib.suppress(OSError):  # it is on another host, or another user's
        started_with = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if not any(entry.startswith(f"{VARIABLE}=".encode()) for entry in started_with):
            raise UserError("the process does not listen", where=pid, why=f"{VARIABLE} is not set in it", do=NEXT_TIME)


def _may_live(pid: int, host: str) -> bool:
    """Whether the process is on another host, or there: the daemon knows one for a minute after its end."""
    is_here = host.partition(":")[0] == "localhost" and Path("/proc/self").exists()
    return not is_here or Path(f"/proc/{pid}").exists()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with os.scandir(folder) as entries:
            taken = any(True for _ in entries)
    except OSError as error:
        why = error.strerror or str(error)
        raise UserError("cannot make the folder of the traces", where=folder, why=why) from error
    if taken:
        raise UserError("the folder is not empty", where=folder, do="name a new one: the traces are one run")


def _job() -> int:
    """The job by whose number the daemon knows its processes: that of Slurm, 0 without one, as in torch."""
    number = os.environ.get("SLURM_JOB_ID", "")
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0


def _answer(host: str, request: bytes) -> dict[str, Any]:
    name, _, port = host.rpartition(":") if ":" in host else (host, "", str(PORT))
    try:
        with socket.create_connection((name, int(port)), _ANSWERS_WITHIN_S) as connection:
            connection.sendall(_LENGTH.pack(len(request)) + request)
            (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
            if not 0 < length <= _LARGEST_ANSWER:
                raise ValueError("its answer has an impossible length")
            answer = json.loads(_read(connection, length))
    except (OSError, ValueError, OverflowError, RecursionError) as error:
        why = getattr(error, "strerror", None) or str(error)
        do = f"start it there (dynolog --enable_ipc_monitor); {NEXT_TIME}"
        raise UserError("no dynolog answers", where=printable(host), why=printable(why), do=do) from error
    return answer if isinstance(answer, dict) else {}


def _read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise ValueError("it ended the connection")
        content += part
    return content


def _numbers(answer: dict[str, Any], name: str) -> list[int]:
    told = answer.get(name)
    return [each for each in told if type(each) is int and each > 0] if isinstance(told, list) else []
