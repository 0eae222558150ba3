"""The whole path of the data: a file or folder in, a Diagnosis out."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from diagnose.attribution import attribute
from diagnose.diagnosis import Diagnosis
from diagnose.judge import Case, diagnose
from diagnose.metrics import REGISTRY, Measured, measure, merged
from diagnose.metrics.registry import Settings, device_of
from diagnose.ranks import join
from diagnose.record import record_beside
from diagnose.roofline import roofline_of
from diagnose.rule import load_rules
from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import Loading, Run, find_run, load_all, on_this_machine, ranks_of


@dataclass(frozen=True, kw_only=True)
class Options(Settings):
    """What the user may state beside the path: the settings of the run, and which rules and traces to use.

    Attributes:
        rules_dirs: folders with the user's own rules.
        run: which run, when a folder holds several.
        loading: how the traces are loaded.
    """

    rules_dirs: tuple[Path, ...] = ()
    run: str | None = None
    loading: Loading = field(default_factory=Loading)


def analyze(path: str | Path, *, options: Options | None = None) -> Diagnosis:
    """Diagnoses the job whose trace, or whose folder of traces with one file for each rank, is at `path`.

    Args:
        path: a file or folder, or as text the URL of one that fsspec reaches (`s3://bucket/run/`).
        options: what the user states beside it.

    Raises:
        UserError: the input or a rule cannot be used.
    """
    with on_this_machine(path) as place:
        found = _analyze(place.path, options or Options())
        files = tuple(place.shown(file) for file in found.trace.files)
        copies = tuple(place.shown(file) for file in found.trace.copies)
        return replace(found, trace=replace(found.trace, files=files, copies=copies))


def _analyze(path: Path, chosen: Options) -> Diagnosis:
    rules = load_rules(chosen.rules_dirs, {name: metric.unit for name, metric in REGISTRY.items()})
    run = find_run(path, chosen.run)
    timelines, left_out = _comparable(_timelines(run, chosen.loading))
    records = [record_beside(Path(t.trace.path), t.rank) for t in timelines]
    rooflines = [roofline_of(t, device_of(t, chosen, r)) for t, r in zip(timelines, records, strict=True)]
    job = join(timelines, [attribute(t, r.class_) for t, r in zip(timelines, rooflines, strict=True)])
    measured = [
        Measured(t, a, job.view, chosen, record, roofline)
        for t, a, record, roofline in zip(timelines, job.attributions, records, rooflines, strict=True)
    ]
    facts = [measure(m) for m in measured]
    found = diagnose(
        Case(measured, facts, merged(facts, [m.attribution.total_ns for m in measured]), job, rules, left_out)
    )
    return replace(found, trace=replace(found.trace, copies=tuple(str(copy) for copy in run.copies)))


def _timelines(run: Run, how: Loading) -> Sequence[Timeline]:
    found = []
    traces = load_all([file.path for file in run.files], how)
    for position, (file, trace) in enumerate(zip(run.files, traces, strict=True)):
        info = trace.metadata.get("distributedInfo")
        stated = info.get("rank") if isinstance(info, dict) else None
        rank = stated if isinstance(stated, int) else file.rank if file.rank is not None else position
        ranks = ranks_of(trace) or {rank: trace}
        found += [timeline_of(part, number) for number, part in ranks.items()]
    return found


def _comparable(timelines: Sequence[Timeline]) -> tuple[Sequence[Timeline], tuple[int, ...]]:
    """The ranks whose time is accounted alike, and those left out: device steps and host steps do not add up."""
    on_gpu = [t for t in timelines if t.has_gpu]
    if not on_gpu:
        return timelines, ()
    return on_gpu, tuple(t.rank for t in timelines if not t.has_gpu)
