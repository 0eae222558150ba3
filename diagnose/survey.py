"""From the files of a run to its ranks: every rank as a digest, and a few of them in full.

The digests are joined; what the metrics and the replay need of a rank beyond its digest is measured on representative
ranks, so that the memory for a job does not grow with its traces.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from diagnose.attribution import Attribution, attribute
from diagnose.metrics import Measured
from diagnose.metrics.capture import lost_share
from diagnose.metrics.registry import Settings, device_of
from diagnose.ranks import Job, RankDigest, digest_of
from diagnose.record import CaptureRecord, record_beside
from diagnose.roofline import Roofline, roofline_of
from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import Loading, Run, Trace, load_all, ranks_of

MOST_MEASURED = 16
MOST_KEPT_BYTES = 4 << 30  # of JSON text; their columns take about a third


@dataclass(frozen=True)
class RankAnalysis:
    """One rank as far as it can be analysed without the others."""

    timeline: Timeline
    record: CaptureRecord
    roofline: Roofline
    attribution: Attribution

    @property
    def digest(self) -> RankDigest:
        """What the join needs of it."""
        return digest_of(
            self.timeline,
            self.attribution,
            host=self.record.text("host") or "",
            lost_share=lost_share(self.timeline),
            sized_share=self.roofline.judged_share,
        )


@dataclass(frozen=True)
class Survey:
    """The ranks of a run: digests in order of rank, and the analyses that are still in memory."""

    run: Run
    settings: Settings
    loading: Loading
    digests: tuple[RankDigest, ...]
    kept: tuple[RankAnalysis, ...]

    def measured(self, job: Job) -> list[Measured]:
        """The representative ranks of the joined job, in order of rank; read again where they are not in memory."""
        wanted = {job.ranks[position].rank: position for position in representatives(job)}
        return [
            Measured(
                own.timeline,
                job.divided(wanted[own.timeline.rank], own.attribution),
                job.view,
                self.settings,
                own.record,
                own.roofline,
            )
            for own in self.kept or analyses(self._files(job, wanted), self.settings, self.loading)
            if own.timeline.rank in wanted
        ]

    def _files(self, job: Job, wanted: dict[int, int]) -> list[tuple[Path, int]]:
        paths = {job.ranks[position].source.path for position in wanted.values()}
        return [(path, rank) for path, rank in numbered(self.run) if str(path) in paths]


def survey(run: Run, settings: Settings, loading: Loading) -> Survey:
    """Reads every trace of the run.

    Raises:
        UserError: a trace cannot be read.
    """
    digests: list[RankDigest] = []
    kept: list[RankAnalysis] = []
    text, keeping = 0, True
    for own in analyses(numbered(run), settings, loading):
        digests.append(own.digest)
        text += own.timeline.trace.size
        keeping = keeping and len(digests) <= MOST_MEASURED and (text <= MOST_KEPT_BYTES or len(digests) == 1)
        kept = [*kept, own] if keeping else []
    return Survey(run, settings, loading, tuple(digests), tuple(kept))


def numbered(run: Run) -> list[tuple[Path, int]]:
    """The files of the run, each with its rank: as its metadata or name tells, else its place."""
    return [(f.path, f.rank if f.rank is not None else at) for at, f in enumerate(run.files)]


def analyses(files: Sequence[tuple[Path, int]], settings: Settings, loading: Loading) -> Iterator[RankAnalysis]:
    """Each rank of the files by itself; a file may hold several.

    Raises:
        UserError: a trace cannot be read.
    """
    traces = load_all([path for path, _ in files], loading)
    for (_, rank), trace in zip(files, traces, strict=True):
        for number, part in (ranks_of(trace) or {_stated_rank(trace, rank): trace}).items():
            yield _analysis(timeline_of(part, number), settings)


def _stated_rank(trace: Trace, otherwise: int) -> int:
    info = trace.metadata.get("distributedInfo")
    stated = info.get("rank") if isinstance(info, dict) else None
    return stated if isinstance(stated, int) else otherwise


def _analysis(timeline: Timeline, settings: Settings) -> RankAnalysis:
    record = record_beside(Path(timeline.trace.path), timeline.rank)
    roofline = roofline_of(timeline, device_of(timeline, settings, record))
    return RankAnalysis(timeline, record, roofline, attribute(timeline, roofline.class_))


def comparable(digests: Sequence[RankDigest]) -> tuple[tuple[RankDigest, ...], tuple[int, ...]]:
    """The ranks whose time is accounted alike, and those left out: device steps and host steps do not add up."""
    on_gpu = tuple(d for d in digests if d.has_gpu)
    if not on_gpu:
        return tuple(digests), ()
    return on_gpu, tuple(d.rank for d in digests if not d.has_gpu)


def representatives(job: Job) -> list[int]:
    """Positions of the ranks that are measured in full: all of a small job, else the stragglers and ranks between."""
    count = len(job.ranks)
    if count <= MOST_MEASURED:
        return list(range(count))
    late = {b.rank for b in job.stragglers[: MOST_MEASURED // 2]}
    chosen = {at for at, rank in enumerate(job.ranks) if rank.rank in late}
    typical = [at for at in range(count) if at not in chosen]
    places = MOST_MEASURED - len(chosen)
    return sorted(chosen | {typical[i * len(typical) // places] for i in range(places)})


def weights(job: Job, measured: Sequence[Measured]) -> list[float]:
    """The time that each measured rank stands for: its own if it is a straggler, else its part of all others'."""
    late = {b.rank for b in job.stragglers}
    own = [float(m.attribution.total_ns) for m in measured]
    typical = [m.timeline.rank not in late for m in measured]
    others = sum(rank.total_ns for rank in job.ranks if rank.rank not in late)
    spread = others / max(sum(ns for ns, is_typical in zip(own, typical, strict=True) if is_typical), 1.0)
    return [ns * (spread if is_typical else 1.0) for ns, is_typical in zip(own, typical, strict=True)]
