"""Read the dumps in a folder: each rank's file as a pickle of plain values or as JSON, with reasons for unread ones."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from diagnose.commands.hang.dump import Dump, dump_of
from diagnose.decoding import UNREADABLE, unpickling
from diagnose.decoding.opcodes import UnsoundPickle
from diagnose.errors import UserError, shown_path
from diagnose.probes.protocol import RECORD, rank_in

LARGEST_JSON_BYTES = 1 << 30
_RANK = re.compile(r"(?:.*\D)?(\d{1,7})(\.(json|pkl|pickle|pt|bin|dump))?", re.DOTALL)
_STACKS = re.compile(r"stacks?[-_](rank[-_]?)?(\d{1,7})\.txt")


@dataclass(frozen=True)
class Unread:
    """A file that is no dump, or none that can be used, and why in one clause."""

    file: str
    why: str


@dataclass(frozen=True)
class FolderContents:
    """Contents of the folder: dumps by rank, files that could not be used, and stacks that py-spy printed, by rank."""

    folder: str
    dumps: dict[int, Dump]
    unread: tuple[Unread, ...]
    stacks: dict[int, tuple[str, ...]]


def found_in(folder: Path) -> FolderContents:
    """Read the dumps of a folder, which may be a bundle.

    Raises:
        UserError: there is no such folder, or neither a dump nor a stack in it.
    """
    if not folder.is_dir():
        raise UserError("no folder of dumps", where=folder, do="name the folder that holds one file for each rank")
    dumps: dict[int, Dump] = {}
    unread = []
    for rank, path in _candidates(folder):
        try:
            dump = _read(path, rank)
        except _Unusable as error:
            unread.append(Unread(shown_path(path.name), str(error)))
            continue
        if rank in dumps:
            unread.append(Unread(shown_path(path.name), f"rank {rank} has another file, {dumps[rank].file}"))
        else:
            dumps[rank] = dump
    stacks = _stacks(folder)
    if not dumps and not stacks:
        raise _nothing(folder, unread)
    return FolderContents(shown_path(folder), dict(sorted(dumps.items())), tuple(unread), stacks)


class _Unusable(Exception):
    """The file is no dump, or none that can be used."""


def _candidates(folder: Path) -> Iterator[tuple[int, Path]]:
    """The files whose name ends with the number of a rank, as torch names them, in the order of the ranks."""
    named = []
    for entry in os.scandir(folder):
        match = _RANK.fullmatch(entry.name)
        if match is not None and rank_in(entry.name, RECORD) is None and entry.is_file():
            named.append((int(match[1]), Path(entry.path)))
    yield from sorted(named)


def _read(path: Path, rank: int) -> Dump:
    try:
        value = _value(path)
    except OSError as error:
        raise _Unusable(f"it cannot be read: {error.strerror}") from error
    except UnsoundPickle as error:
        raise _Unusable(str(error)) from error
    dump = dump_of(value, rank, shown_path(path.name))
    if dump is None:
        raise _Unusable("it holds no entries of a flight recorder")
    return dump


def _value(path: Path) -> Any:
    with path.open("rb", buffering=1 << 20) as file:
        first = file.read(64)
        file.seek(0)
        if not first:
            raise _Unusable("it is empty: the rank ended while it wrote, or the disk was full")
        if unpickling.is_pickle(first):
            return unpickling.read(file)
        if first.lstrip()[:1] not in (b"{", b"["):
            raise _Unusable("it is neither a pickle nor JSON")
        if os.fstat(file.fileno()).st_size > LARGEST_JSON_BYTES:
            raise _Unusable("it is JSON of more than 1 GiB")
        try:
            return msgspec.json.decode(file.read())
        except UNREADABLE as error:
            raise _Unusable("it is damaged JSON") from error


def _stacks(folder: Path) -> dict[int, tuple[str, ...]]:
    """Stacks that `py-spy dump` printed for each rank: the frames of its main thread, the innermost first."""
    found = {}
    for path in folder.glob("stack*.txt"):
        match = _STACKS.fullmatch(path.name)
        if match is not None and path.is_file():
            with path.open(errors="replace") as file:
                frames = _main_thread(file.read(1 << 20).splitlines())
            if frames:
                found[int(match[2])] = frames
    return found


def _main_thread(lines: list[str]) -> tuple[str, ...]:
    """The frames of the main thread as py-spy prints them: indented below a line that begins with "Thread"."""
    begins = [i for i, line in enumerate(lines) if line.startswith("Thread ")]
    main = next((i for i in begins if "MainThread" in lines[i]), begins[0] if begins else None)
    if main is None:
        return ()
    frames = []
    for line in lines[main + 1 :]:
        if not line.startswith((" ", "\t")):
            break
        frames.append(line.strip()[:300])
    return tuple(frames[:200])


def _nothing(folder: Path, unread: list[Unread]) -> UserError:
    why = "; ".join(f"{entry.file}: {entry.why}" for entry in unread[:3])
    return UserError(
        "no dump of a flight recorder",
        where=shown_path(folder),
        why=why or "no file in it is named after a rank, as nccl_trace_rank_0 is",
        do="see docs/hang.md for how a job writes them",
    )
