"""Analyze the files of a run into ranks: every rank as a digest, and a few of them in full.

The digests are joined; metrics and the replay that need more than a digest are computed on representative ranks, so
that the memory for a job does not grow with its traces.
"""

from collections.abc import Sequence
from itertools import accumulate, count
from pathlib import Path

import msgspec
from msgspec.structs import replace

from diagnose.analysis.rank import RankAnalysis, analyses
from diagnose.errors import UserError, printable
from diagnose.metrics import Measured
from diagnose.metrics.settings import Settings
from diagnose.ranks import Job, RankDigest
from diagnose.trace import Loading, TracedRun
from diagnose.trace.execution import look_again
from diagnose.trace.workers import WORTHWHILE_TEXT_BYTES

MOST_MEASURED = 16
MOST_KEPT_BYTES = 4 << 30  # of JSON text; their columns take about a third


class AnalyzedRanks(msgspec.Struct, frozen=True):
    """The ranks of a run: digests in order of rank, and the analyses that are still in memory."""

    run: TracedRun
    settings: Settings
    loading: Loading
    digests: tuple[RankDigest, ...]
    kept: tuple[RankAnalysis, ...]

    def measured(self, job: Job, positions: Sequence[int], judged: Sequence[int]) -> list[Measured]:
        """The ranks at the positions of the joined job, in order of rank; read again if they are not in memory.

        The verdict uses the breakdown of the ranks at the positions `judged`.
        """
        judged_ns = job.together(judged)
        wanted = {job.ranks[position].rank: position for position in positions}
        kept = self.kept or analyses(self._files(job, wanted), self.settings, self._again(job, positions))
        return [
            Measured(
                analysis.timeline,
                job.divided(wanted[analysis.timeline.rank], analysis.attribution),
                job.view,
                self.settings,
                analysis.record,
                analysis.roofline,
                judged_ns,
            )
            for analysis in kept
            if analysis.timeline.rank in wanted
        ]

    def _again(self, job: Job, positions: Sequence[int]) -> Loading:
        """How to read the ranks at these positions again: in this process alone if there is too little to share out."""
        small = sum(job.ranks[position].source.bytes for position in positions) < WORTHWHILE_TEXT_BYTES
        return replace(self.loading, jobs=1) if small else self.loading

    def _files(self, job: Job, wanted: dict[int, int]) -> list[tuple[Path, int]]:
        paths = {job.ranks[position].source.path for position in wanted.values()}
        return [(path, rank) for path, rank in numbered(self.run) if str(path) in paths]


def analyze_ranks(run: TracedRun, settings: Settings, loading: Loading, scheduler: str | None = None) -> AnalyzedRanks:
    """Read every trace of the run, a large run in several processes; each rank by itself.

    Args:
        run: the files.
        settings: what the user states of the job.
        loading: how traces are loaded.
        scheduler: address or file of the Dask scheduler whose workers read the traces; None for this machine.

    Raises:
        UserError: a trace cannot be read, two are of one rank, or the scheduler cannot be used.
    """
    look_again()
    files = numbered(run)
    if len(files) > MOST_MEASURED or scheduler is not None:
        from diagnose.analysis.workers import Task, digests  # of large jobs alone

        each = replace(loading, jobs=1, watch=None)
        read = digests([Task(path, rank, settings, each) for path, rank in files], loading, scheduler)
        return AnalyzedRanks(run, settings, loading, _each_once(read), ())
    read, kept, text = [], [], 0
    for analysis in analyses(files, settings, loading):
        read.append(analysis.digest)
        kept.append(analysis)
        text += analysis.timeline.trace.size
        if len(kept) > 1 and text > MOST_KEPT_BYTES:
            kept.clear()
    whole = sorted(kept, key=lambda analysis: analysis.timeline.rank) if len(kept) == len(read) else ()
    return AnalyzedRanks(run, settings, loading, _each_once(read), tuple(whole))


def numbered(run: TracedRun) -> list[tuple[Path, int]]:
    """The files of the run, each with its rank: the one in its metadata or name, else the first unused number.

    If a file holds several ranks without numbers, it gets its first one, counted over the files in order.
    """
    if any(f.ranks > 1 for f in run.files):
        firsts = accumulate((f.ranks for f in run.files), initial=0)
        return [(f.path, first) for f, first in zip(run.files, firsts, strict=False)]
    known = {f.rank for f in run.files}
    free = (rank for rank in count() if rank not in known)
    return [(f.path, f.rank if f.rank is not None else next(free)) for f in run.files]


def _each_once(digests: Sequence[RankDigest]) -> tuple[RankDigest, ...]:
    """The digests in order of rank, one for each rank.

    Raises:
        UserError: two files, or parts of them, claim to be the same rank.
    """
    of_rank: dict[int, RankDigest] = {}
    for digest in digests:
        other = of_rank.setdefault(digest.rank, digest)
        if other is not digest:
            raise UserError(
                f"two traces claim to be rank {digest.rank}",
                where=digest.source.path,
                why=f"the other is {printable(other.source.path)}",
                do="keep one run in the folder, or pass one of the files",
            )
    return tuple(of_rank[rank] for rank in sorted(of_rank))


def comparable(digests: Sequence[RankDigest]) -> tuple[tuple[RankDigest, ...], tuple[int, ...]]:
    """The ranks whose time is accounted in the same way, and those left out: device and host steps do not add up."""
    on_gpu = tuple(d for d in digests if d.has_gpu)
    if not on_gpu:
        return tuple(digests), ()
    return on_gpu, tuple(d.rank for d in digests if not d.has_gpu)


def representatives(job: Job) -> list[int]:
    """Positions of the ranks that are measured in full: all of a small job, else the stragglers and ranks between."""
    count = len(job.ranks)
    if count <= MOST_MEASURED:
        return list(range(count))
    late = {straggler.rank for straggler in job.stragglers[: MOST_MEASURED // 2]}
    chosen = {at for at, rank in enumerate(job.ranks) if rank.rank in late}
    typical = [at for at in range(count) if at not in chosen]
    places = MOST_MEASURED - len(chosen)
    return sorted(chosen | {typical[i * len(typical) // places] for i in range(places)})


def weights(job: Job, measured: Sequence[Measured]) -> list[float]:
    """The time that each measured rank stands for: its own if it is a straggler, else its part of the others' time."""
    late = {straggler.rank for straggler in job.stragglers}
    own_ns = [float(m.attribution.total_ns) for m in measured]
    typical = [m.timeline.rank not in late for m in measured]
    others = sum(rank.total_ns for rank in job.ranks if rank.rank not in late)
    spread = others / max(sum(ns for ns, is_typical in zip(own_ns, typical, strict=True) if is_typical), 1.0)
    return [ns * (spread if is_typical else 1.0) for ns, is_typical in zip(own_ns, typical, strict=True)]
