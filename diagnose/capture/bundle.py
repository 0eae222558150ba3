"""A bundle as the parent sees it: the ranks that have written their traces, why others have not, further windows."""

import glob
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from diagnose.capture.folder import claimed, is_ours, parents_of
from diagnose.capture.unreached import why_unreached
from diagnose.probes.bundle.claim import json_object, owner, scratch_of
from diagnose.probes.protocol import CLAIM, DONE, RECORD, TRACE, rank_in

_MOST_RANKS = 1 << 20
_LONGEST_REASON = 300


@dataclass(frozen=True)
class Written:
    """The ranks that have finished their window.

    Attributes:
        world_size: how many ranks the job has.
        traces: file name of each rank's trace.
        errors: of the ranks that failed, why they have no trace.
        left_out: of the ranks that record nothing by choice, the reason; their step times are in their records.
    """

    world_size: int
    traces: Mapping[int, str]
    errors: Mapping[int, str]
    left_out: Mapping[int, str] = field(default_factory=dict)

    @property
    def complete(self) -> bool:
        """Whether all ranks have finished."""
        return len(self.traces) + len(self.errors) + len(self.left_out) >= self.world_size

    @property
    def missing(self) -> list[int]:
        """The ranks without a trace that should have one."""
        return [rank for rank in range(self.world_size) if rank not in self.traces and rank not in self.left_out]


class Bundle:
    """A folder for one capture, claimed here.

    Args:
        out: the folder that the user names; None for one below `diagnose-runs`, named after the time or the Slurm step.
        env: shows whether several `diagnose run` of one job share the folder (`srun diagnose run -- ...`).

    Attributes:
        folder: where the traces go.
        token: the text that the ranks of this run put into their markers.
        marks: the files that hooked processes leave for `why_empty`.
        shared: whether other parents use the folder.
        parents: how many use it, this one too, as far as the environment shows.

    Raises:
        OSError: the folder cannot be made.
        ValueError: it can have no other name, and is not empty.
    """

    def __init__(self, out: Path | None, env: Mapping[str, str]) -> None:
        self._claimed = claimed(out, env)
        self.folder, self.token, self.marks = self._claimed.folder, self._claimed.token, self._claimed.marks
        self.shared = self._claimed.parent is not None
        self.parents = parents_of(env) if self.shared else 1
        self._earlier = set(self._numbered_folders())

    def written(self) -> Written:
        """The results that the markers of this run in the folder record."""
        return written_in(self.folder, self.token)

    def spans_nodes(self, written: Written) -> bool:
        """Whether the job has ranks on other nodes, as the record of a rank shows by those of its own."""
        records = (json_object(self.folder / RECORD.format(rank)) or {} for rank in written.traces)
        here = (cores.get("local_ranks") for record in records if isinstance(cores := record.get("cores"), dict))
        return any(isinstance(ranks, int) and ranks < written.world_size for ranks in here)

    def others_run(self) -> bool:
        """Whether other parents that share the folder are still running."""
        return self.shared and self._claimed.others()

    def cut(self) -> dict[int, str]:
        """Ranks that ended inside their window without a trace, with the reason or ""; read after the job ended."""
        traced = {rank_in(path.name, TRACE) for path in self.traces()}
        return {rank: why for rank, why in self._unended().items() if rank not in traced}

    def unrecorded(self) -> list[int]:
        """Ranks that left a trace but ended before their record was complete; read after the job ended."""
        return sorted(self._unended().keys() - self.cut().keys())

    def _unended(self) -> dict[int, str]:
        """Ranks that claimed a window and left no marker, each with the error of its claim, or ""."""
        scratch, written = scratch_of(self.folder), self.written()
        claims = _of_each_rank(scratch, CLAIM) if scratch is not None else ()
        done = {*written.traces, *written.errors, *written.left_out}
        return {
            rank: str((claim or {}).get("error") or "")[:_LONGEST_REASON] for rank, claim in claims if rank not in done
        }

    def further_windows(self) -> list[Path]:
        """The folders of further windows: a second training in a process, a second process of the command.

        They include those that appeared meanwhile and are nobody's: of captures in the code of the command.
        """
        return sorted(
            path
            for path in self._numbered_folders()
            if is_ours(path, self.token) or (path not in self._earlier and self._is_nobodys(path))
        )

    def _is_nobodys(self, folder: Path) -> bool:
        markers = [marker for _, marker in _of_each_rank(folder, DONE) if marker is not None]
        return owner(folder) is None and bool(markers) and not any("token" in marker for marker in markers)

    def _numbered_folders(self) -> Iterator[Path]:
        for path in self.folder.parent.glob(f"{glob.escape(self.folder.name)}-*"):
            if path.name.removeprefix(f"{self.folder.name}-").isdecimal():
                yield path

    def traces(self) -> list[Path]:
        """Every trace file, of finished windows or not."""
        return sorted(p for p in self.folder.glob(TRACE.format("*")) if p.is_file())

    def why_empty(self, code: int = 0) -> str:
        """One clause on how far the job got towards a capture; `code` is what the command ended with."""
        return why_unreached(self.marks, code)

    def tidy(self) -> None:
        """Remove the files that only the parent needs, and the folder itself if it was made here and stayed empty."""
        self._claimed.release([path for path in self.further_windows() if path != self.folder])


def written_in(folder: Path, token: str | None = None) -> Written:
    """The results that the markers in a folder record: those of the job with the token, if there is one, else all."""
    traces: dict[int, str] = {}
    errors: dict[int, str] = {}
    left_out: dict[int, str] = {}
    world_size = 1
    for rank, marker in _of_each_rank(folder, DONE):
        if marker is None or (token is not None and marker.get("token") not in (None, token)):
            continue
        trace = marker.get("trace")
        chosen = marker.get("left_out")
        into = traces if trace else left_out if chosen else errors
        into[rank] = str(trace or chosen or marker.get("error") or "no steps were recorded")[:_LONGEST_REASON]
        world_size = max(world_size, _ranks(marker))
    return Written(world_size, traces, errors, left_out)


def _of_each_rank(folder: Path, pattern: str) -> Iterator[tuple[int, dict[str, object] | None]]:
    """The rank and the content of each file named by `pattern`."""
    for path in folder.glob(pattern.format("*")):
        rank = rank_in(path.name, pattern)
        if rank is not None:
            yield rank, json_object(path)


def _ranks(marker: Mapping[str, object]) -> int:
    size = marker.get("world_size")
    return size if isinstance(size, int) and 0 < size <= _MOST_RANKS else 1
