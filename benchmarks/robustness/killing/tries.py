"""One try: a command is disturbed at a moment, what it left is looked at, and after a kill it runs once more."""

import importlib
import mmap
import os
import pkgutil
import random
import re
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .commands import Command
from .moments import How, Moments
from .world import World, emptied

ORPHANS_END_WITHIN_S = 60.0
_CODES = (0, 1, 2, 3, 130)  # of the pages of the commands: answers, and what the user is told
_EXPECTED = (
    r"cache/diagnose-contents",  # comes when a file has not changed for seconds, as on a slow machine
    r"cache/diagnose-\w{8}\.part",  # goes with an entry that is made an hour later, since caches are shared by hosts
    r"tmp/[a-z0-9_]{8}",  # with it Python's tempfile tries whether it can write there
)


@dataclass(frozen=True)
class Ended:
    """How a process ended: its code, what it printed, and how many moments it met."""

    code: int
    told: str
    moments: int


@dataclass(frozen=True)
class Found:
    """What a try left.

    Attributes:
        wrong: what must not be, in words.
        left: files of its own that stay until the next command of the kind.
    """

    wrong: tuple[str, ...]
    left: tuple[str, ...] = ()


def imported() -> None:
    """All of the package, so that a copy of this process has little to do."""
    package = importlib.import_module("diagnose")
    for module in pkgutil.walk_packages(package.__path__, "diagnose."):
        if not module.name.startswith(("diagnose.probes", "diagnose.commands.hta", "diagnose.__main__")):
            importlib.import_module(module.name)


def at_moment(world: World, command: Command, how: How, at: int) -> Ended:
    """The command in a copy of this process, disturbed at one of its moments."""
    shared = mmap.mmap(-1, 8)
    told = world.place.with_suffix(".told")
    child = os.fork()
    if child == 0:
        try:
            _be(world, command, told, Moments(how, at, lambda count: struct.pack_into("q", shared, 0, count)))
        finally:
            os._exit(99)  # not reached: what is said instead is that it ended with its own code
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Ended(code, told.read_text(encoding="utf-8", errors="replace"), struct.unpack_from("q", shared)[0])


def _be(world: World, command: Command, told: Path, moments: Moments) -> None:
    """What the copy does: it becomes the command."""
    from diagnose.cli import main
    from diagnose.trace import cache, cache_folder

    os.chdir(world.place)
    os.environ.update(world.environment)
    cache.SMALLEST_FILE_BYTES = cache.SMALLEST_TEXT_BYTES = cache_folder._LEFT_FREE_BYTES = 0  # all traces are kept
    importlib.import_module("tempfile").tempdir = None
    sys.dont_write_bytecode = True
    os.dup2(os.open(command.stdin, os.O_RDONLY), 0)
    page = os.open(told, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(page, 1), os.dup2(page, 2)
    code = 98
    moments.begin()
    try:
        main.main(list(command.arguments), prog_name="diagnose")
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)


def at_random_time(world: World, command: Command, usual_s: float | None, seed: int = 0) -> Ended:
    """The command as a process of its own, killed at any time that it usually takes; not killed where that is None."""
    after_s = None if usual_s is None else random.Random(seed).uniform(0, usual_s)
    with open(world.place / command.stdin, "rb") as given:
        process = subprocess.Popen(
            [sys.executable, "-m", "diagnose", *command.arguments],
            cwd=world.place, env={**os.environ, **world.environment}, stdin=given,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        process.kill()
    return Ended(process.wait(), "", 0)


def look(world: World, command: Command, ended: Ended, how: How, usual: set[str]) -> Found:
    """What is wrong with what a try left; `usual` are the files of a command that nothing disturbs."""
    wrong = [f"{name} is torn" for name in world.torn()]
    wrong += [f"a process is left: {name}" for name in orphans(world)]
    left = _beyond(world, command, usual)
    if how != "kill":
        wrong += [] if ended.code in (*_CODES, *command.codes) else [f"it ended with {ended.code}: {ended.told[-300:]}"]
        wrong += ["a traceback"] if "Traceback" in ended.told else []
        wrong += [f"{name} is left" for name in left if how != "read-only"]
        return Found(tuple(wrong), left)
    finished = world.finished_runs()
    again = at_moment(world, command, "nothing", 0) if command.at_moments else at_random_time(world, command, None)
    if again.code not in command.codes:
        wrong.append(f"the next one ends with {again.code}: {again.told[-300:]}")
    if world.finished_runs()[: len(finished)] != finished:
        wrong.append(f"of {len(finished)} finished runs not all are kept")
    wrong += [f"{name} stays" for name in _beyond(world, command, usual)]
    wrong += [f"{name} is torn after the next one" for name in world.torn()]
    return Found(tuple(wrong), left)


def _beyond(world: World, command: Command, usual: set[str]) -> tuple[str, ...]:
    """What lies there beyond the usual, and beyond what is known to come or go by time."""
    kept = re.compile("|".join((command.keeps, *_EXPECTED)))
    return tuple(sorted(name for name in world.files() - usual if not kept.fullmatch(name)))


def orphans(world: World) -> list[str]:
    """Processes of the world that are still there when they should long have ended."""
    until = time.monotonic() + ORPHANS_END_WITHIN_S
    while (found := list(_processes(world))) and time.monotonic() < until:
        time.sleep(0.05)
    return found


def _processes(world: World) -> Iterator[str]:
    wanted = f"DIAGNOSE_TRY={world.place}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    yield (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:80]
            except OSError:
                continue


def tidy(world: World) -> None:
    """Removes the world, and what it printed."""
    emptied(world.place)
    world.place.with_suffix(".told").unlink(missing_ok=True)
