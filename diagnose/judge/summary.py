"""The input and the measurements as the diagnosis records them."""

from collections.abc import Sequence

from diagnose.diagnosis import FactReport, Loss, TraceSummary
from diagnose.facts import Fact, Unknown
from diagnose.ranks import RankDigest, missing_ranks


def fact_report(fact: Fact) -> FactReport:
    """The measurement, or why there is none."""
    if isinstance(fact.value, Unknown):
        why = fact.value
        return FactReport(
            name=fact.name,
            value=None,
            unit=fact.unit,
            of=fact.of,
            because=why.because,
            capture_next=why.capture_next,
        )
    return FactReport(name=fact.name, value=fact.value, unit=fact.unit, of=fact.of)


def summary_of(ranks: Sequence[RankDigest], without_gpu: Sequence[int]) -> TraceSummary:
    """The files that the ranks came from, added up; `without_gpu` are ranks of the job that are left out."""
    sources = [rank.source for rank in ranks]
    return TraceSummary(
        files=tuple(dict.fromkeys(source.path for source in sources)),
        events=sum(source.events for source in sources),
        bytes=sum(source.bytes for source in sources),
        loss=Loss(
            events=sum(source.lost_events for source in sources),
            bytes=sum(source.lost_bytes for source in sources),
            truncated=any(source.truncated for source in sources),
            kinds=tuple(sorted({kind for source in sources for kind in source.lost_kinds})),
        ),
        missing_ranks=missing_ranks(ranks, without_gpu),
        left_out=sum(source.left_out for source in sources),
        shapes_of=tuple(dict.fromkeys(source.shapes_of for source in sources if source.shapes_of)),
    )
