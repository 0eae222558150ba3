"""Write this rank's progress to a small file, by which the `diagnose run` above sees from outside that a job hangs.

The file names the process, so that py-spy can look at it, and the steps it has done. A thread that can no longer write
it, since the interpreter is blocked too, looks the same as one without a new step.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..bundle.claim import json_object
from ..config import Config, from_environment, rank_and_world_size
from ..guard import described, quietly, say
from ..protocol import PULSE, SCRATCH

UNSEEN = "nobody sees it if the job hangs"
PULSE_BYTES = 512
_SET_PTRACER = 0x59616D61  # PR_SET_PTRACER of <linux/prctl.h>


class Pulse:
    """The file of rank `rank` in the scratch folder of the run.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, out: str, rank: int) -> None:
        self._file = os.open(_path(out, rank), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        self._told: int | None = -1
        self._who = name_of(os.getpid())

    def beat(self, step: int | None, usual_ns: int = 0) -> None:
        """Write the number of steps done, None outside a loop, and their usual time, 0 if unknown.

        Raises:
            OSError: it cannot be written.
        """
        if step != self._told:
            pulse = {**self._who, "step": step, "usual_us": usual_ns // 1000}
            os.pwrite(self._file, json.dumps(pulse).encode().ljust(PULSE_BYTES), 0)
            self._told = step

    def close(self) -> None:
        """Write that no loop runs any more, and close the file; the process may still be looked at."""
        quietly(lambda: self.beat(None))
        os.close(self._file)


def arm() -> None:
    """Write the pulse of a rank of several before its first step: many jobs hang in their first collective.

    A helper process of the rank inherits its environment, and leaves the file to it.
    """
    config = from_environment()
    rank, world_size = rank_and_world_size()
    if config is None or world_size == 1 or quietly(lambda: _another_tells(config.out, rank)):
        return
    pulse = pulse_of(config, rank)
    if pulse is not None:
        pulse.close()


def name_of(pid: int) -> dict[str, Any]:
    """A lasting name of a process on this host: its id, which may be reused, and its start time in kernel ticks.

    Raises:
        OSError: there is no such process, or no /proc.
    """
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        started = int(file.read().rpartition(")")[2].split()[19])
    return {"pid": pid, "started": started, "host": platform.node()[:200]}


def pulse_of(config: Config, rank: int) -> Pulse | None:
    """The pulse of this rank, None if nobody asks for it; the `diagnose run` above may read its stacks if it asks."""
    parent = config.looked_at_by
    if not parent and not config.pulse:
        return None
    if parent:
        quietly(lambda: _allow(parent))
    try:
        return Pulse(config.out, rank)
    except OSError as error:
        say(f"{UNSEEN}: {described(error)}")
        return None


def _allow(parent: dict[str, Any]) -> None:
    """Let the `diagnose run` above read this process, unless it is on another host or its process id is reused here.

    If Yama lets only ancestors read a process, py-spy is not one of them; but its parent may be named.

    Without Yama the call fails as unknown, and nothing is needed.
    """
    if name_of(parent["pid"]) == parent:
        call: Callable[..., int] = ctypes.CDLL(None).prctl
        call(_SET_PTRACER, *(ctypes.c_ulong(each) for each in (parent["pid"], 0, 0, 0)))


def _another_tells(out: str, rank: int) -> bool:
    """Whether the file belongs to another live process of this host.

    Raises:
        OSError: the process that it names has ended.
    """
    told = json_object(_path(out, rank)) or {}
    pid = told.get("pid")
    return type(pid) is int and pid != os.getpid() and {**told, **name_of(pid)} == told


def _path(out: str, rank: int) -> Path:
    return Path(os.path.abspath(out), SCRATCH, PULSE.format(rank))
