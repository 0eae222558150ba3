"""The folder that a capture fills: where it is, which ranks of a window are written, why it stayed empty."""

import contextlib
import glob
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

RUNS = Path("diagnose-runs")
_MARKER = re.compile(r"rank(\d+)\.done")
_LEFTOVERS = (".rank*", ".diagnose-*", ".capture-*")  # of processes that were killed
_TAKEN = ("rank*.done", "rank*.json*", "capture*.json")
_RANK = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
_SIBLINGS = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_JOB = (
    ("SLURM_JOB_ID", "SLURM_STEP_ID"),
    ("PMIX_NAMESPACE",),
    ("MASTER_ADDR", "MASTER_PORT"),
)


@dataclass(frozen=True)
class Written:
    """The ranks that are done with their window.

    Attributes:
        world_size: how many ranks the job has.
        traces: file name of each rank's trace.
        errors: of the ranks without a trace, why they have none.
    """

    world_size: int
    traces: Mapping[int, str]
    errors: Mapping[int, str]

    @property
    def complete(self) -> bool:
        """Whether nothing more will come."""
        return len(self.traces) + len(self.errors) >= self.world_size

    @property
    def missing(self) -> list[int]:
        """The ranks without a trace."""
        return [rank for rank in range(self.world_size) if rank not in self.traces]


class Bundle:
    """A folder for one capture, created here.

    Args:
        out: the folder that the user names; None for one below `diagnose-runs`, named after the time or the Slurm step.
        env: tells whether several `diagnose run` of one job share the folder (`srun diagnose run -- ...`).

    Attributes:
        folder: where the traces go.
        seen: what the hooked processes leave for `why_empty`.
        shared: whether other parents use the folder.

    Raises:
        OSError: the folder cannot be made.
    """

    def __init__(self, out: Path | None, env: Mapping[str, str]) -> None:
        self._was_there = out is not None and out.is_dir()
        self.folder = _created(out, env)
        self.shared = _has_siblings(env)
        self._earlier = set(self._alike())
        self.seen = self.folder / ".seen"
        self.seen.mkdir(exist_ok=True)

    def written(self) -> Written:
        """What the markers in the folder say."""
        traces: dict[int, str] = {}
        errors: dict[int, str] = {}
        world_size = 1
        for path in self.folder.glob("rank*.done"):
            match = _MARKER.fullmatch(path.name)
            marker = _json_object(path) if match else None
            if match and marker is not None:
                trace, size = marker.get("trace"), marker.get("world_size")
                into = traces if trace else errors
                into[int(match[1])] = str(trace or marker.get("error") or "no steps were recorded")
                world_size = max(world_size, size if isinstance(size, int) else 1)
        return Written(world_size, traces, errors)

    def later(self) -> list[Path]:
        """The folders of further windows: a second training in a process, a second process of the command."""
        return sorted(set(self._alike()) - self._earlier - {self.folder})

    def _alike(self) -> Iterator[Path]:
        for path in self.folder.parent.glob(f"{glob.escape(self.folder.name)}-*"):
            if path.name.removeprefix(f"{self.folder.name}-").isdecimal():
                yield path

    def traces(self) -> list[Path]:
        """Every trace file, of finished windows or not."""
        return sorted(p for p in self.folder.glob("rank*.json*") if p.is_file())

    def why_empty(self) -> str:
        """One clause: how far towards a capture the job got."""
        seen = {path.name for path in self.seen.iterdir()} if self.seen.is_dir() else set()
        spawned = "; children of multiprocessing are not followed: start ranks with torchrun"
        hint = spawned if "multiprocessing" in seen else ""
        if "python" not in seen:
            return (
                "no Python process of the command could be hooked: PYTHONPATH did not reach it "
                "(a container, `srun --export=NONE`, a host without this folder), or Python runs with -I, -E or -S"
            )
        if "torch" not in seen:
            return f"no Python process of the command imported torch{hint}"
        return f"no window of steps was reached: no optimizer step was seen, or too few{hint}"

    def tidy(self) -> None:
        """Remove what only the parent needs, and the folder itself when it stayed empty."""
        shutil.rmtree(self.seen, ignore_errors=True)
        leftovers = () if self.shared else _LEFTOVERS
        for path in (path for pattern in leftovers for path in self.folder.glob(pattern)):
            path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty
            if not self._was_there:
                self.folder.rmdir()
            if self.folder.parent.name == RUNS.name:
                self.folder.parent.rmdir()


def is_first_rank(env: Mapping[str, str]) -> bool:
    """Whether this is the one parent, or the parent of rank 0, which reports for all."""
    return next((env[name] for name in _RANK if env.get(name)), "0") == "0"


def _created(out: Path | None, env: Mapping[str, str]) -> Path:
    """The folder, or the first of `-2`, `-3`, ... that holds no capture yet; absolute, since jobs change directory."""
    shared = _has_siblings(env)
    wanted = Path(os.path.abspath(out if out is not None else RUNS / _name(env)))
    count = 1
    while True:
        folder = wanted if count == 1 else wanted.with_name(f"{wanted.name}-{count}")
        count += 1
        if folder.is_dir() and _is_taken(folder, env, shared):
            continue
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True, exist_ok=shared or out is not None)
            return folder
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is a file")


def _is_taken(folder: Path, env: Mapping[str, str], shared: bool) -> bool:
    """Whether an earlier capture is there. Of a shared folder only this rank's files tell: others may be faster."""
    rank = next((env[name] for name in _RANK if env.get(name)), "0")
    patterns = (f"rank{rank}.done", f"rank{rank}.json*") if shared else _TAKEN
    return any(next(folder.glob(pattern), None) for pattern in patterns)


def _has_siblings(env: Mapping[str, str]) -> bool:
    return any(env.get(name, "1") not in ("", "1") for name in _SIBLINGS)


def _name(env: Mapping[str, str]) -> str:
    """One name for all parents of a job, else the time."""
    if _has_siblings(env):
        for names in _JOB:
            if all(env.get(name) for name in names):
                return "job-" + re.sub(r"[^\w.]+", "-", ".".join(env[name] for name in names))
    return time.strftime("%Y-%m-%d_%H-%M-%S")


def _json_object(path: Path) -> dict[str, object] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
