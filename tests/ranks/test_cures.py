"""When the gain of a cure is told: never as zero where the replay does not show it, and never of what overlap keeps."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from analysed import digest
from report.printed import printed
from simulator import Fault, Job, simulate
from simulator.job import Parallelism

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import JobChange
from diagnose.ranks import Job as Joined
from diagnose.ranks import join, match
from diagnose.ranks.network.topology import topology_of
from diagnose.ranks.replay import changes
from diagnose.ranks.replay.changes import HIDDEN, changes_of
from diagnose.report.html import page
from diagnose.report.markdown import markdown
from diagnose.report.views.summary import About

pytestmark = pytest.mark.long

LATE, ABOUT = 2, About("1.0")
SMALL = Job(ranks=4, steps=4, layers=2, model_parallel=2, faults=(Fault("slow_kernels", (LATE,), 2),))
PIPELINE = Job(steps=4, parallelism="pp_dp", faults=(Fault("slow_kernels", (3,), 2),))
SHARDED = Job(steps=4, parallelism="fsdp", faults=(Fault("host", (3,), 8),))


def cured(job: Joined) -> JobChange:
    return next(change for change in job.changes.changes if change.change == "no straggler")


def traces(job: Job) -> list[dict[str, Any]]:
    return [json.loads(text) for _, text in simulate(job).traces()]


def with_rounded_begins(job: Job, us: float) -> Joined:
    """The ranks of the job, whose activities on the GPU begin at multiples of so many microseconds."""
    rounded = traces(job)
    for event in (event for trace in rounded for event in trace["traceEvents"] if event["cat"] == "kernel"):
        event["ts"] = us * round(event["ts"] / us)
    return join([digest(trace, rank) for rank, trace in enumerate(rounded)])


def truth(job: Job) -> float:
    """How much faster the job is without its fault."""
    ran = simulate(job)
    return float(ran.machine.step_ns[1:].mean() / ran.healthy.step_ns[1:].mean())


@pytest.mark.parametrize("job", [PIPELINE, SHARDED])
def test_begins_rounded_to_60_us_do_not_change_what_a_cure_gains(job: Job) -> None:
    found = cured(with_rounded_begins(job, 60))

    assert found.speedup is not None
    assert found.speedup[1] == pytest.approx(truth(job), rel=0.05)


@pytest.mark.parametrize("job", [PIPELINE, SHARDED])
def test_a_cure_is_not_priced_where_its_replay_keeps_the_waiting(job: Job) -> None:
    """Begins rounded to half a millisecond: the unchanged replay is as near as before, the cured one would not be."""
    joined = with_rounded_begins(job, 500)
    found = cured(joined)

    assert joined.changes.error is not None
    assert joined.changes.error < 0.05
    assert found.speedup is None
    assert "ends a little before its collective" in found.because
    assert joined.view.cure_untold == found.because
    assert joined.view.straggler_cure_share[1] > 0.05


def test_the_cure_of_ranks_that_nobody_does_better_is_unknown() -> None:
    digests = [digest(trace, rank) for rank, trace in enumerate(traces(SMALL))]
    matched = match(digests)
    assert isinstance(matched, tuple)

    found = changes_of(digests, matched, [0, 1, 2, 3], topology_of(digests))

    assert found.saved("no straggler") is None
    assert found.untold("no straggler") == "no rank that does the same as ranks 0, 1, 2 and 3 is ready earlier"


@cache
def unpriced(parallelism: Parallelism) -> Diagnosis:
    """The answer about a late rank whose cure the replay does not show."""
    job = SMALL if parallelism == "ddp" else PIPELINE
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        simulate(job).write(Path(folder), gz=False)
        patch.setattr(changes, "stray_share", lambda _: -1.0)
        return analyze(folder)


@pytest.mark.parametrize("parallelism", ["ddp", "pp_dp"])
def test_what_is_not_priced_is_bounded_by_the_waiting(parallelism: Parallelism) -> None:
    found = unpriced(parallelism)
    (late,) = found.stragglers
    finding = next(finding for finding in found.findings if finding.rule == "straggler")

    assert finding.predicted_speedup is not None
    assert (finding.predicted_speedup[0] > 1.0) == (parallelism == "ddp"), "stages wait for each other anyway"
    assert finding.predicted_speedup[1] is not None
    assert finding.predicted_speedup[1] > 1.1
    assert "cost the job at most " in finding.says
    assert (late.gpu_hours_per_day is None) == (parallelism == "pp_dp")


@pytest.mark.parametrize("form", [lambda found, _: printed(found, details=True), page, markdown])
def test_no_form_of_the_report_prints_a_missing_price_as_zero(form: Callable[[Diagnosis, About], str]) -> None:
    text = " ".join(form(unpriced("pp_dp"), ABOUT).split())

    assert "how much of that wait ends without it is unknown" in text
    assert "not predicted, because by the trace" in text
    assert "0.0 GPU-hours" not in text
    assert "0.0 % shorter" not in text


def test_overlap_does_not_end_the_waits_of_stages_for_each_other() -> None:
    """Half of the step is waiting between the stages; only what carries gradients can run beside the work."""
    with_stages = join([digest(trace, rank) for rank, trace in enumerate(traces(PIPELINE))])

    overlap = [change for change in with_stages.changes.changes if change.says.startswith(HIDDEN)]

    assert all(change.speedup is not None and change.speedup[1] < 1.1 for change in overlap)
    assert all("stages of the pipeline wait for each other as before" in change.says for change in overlap)


@cache
def beside_a_slow_link(factor: float) -> Joined:
    """Rank 4 computes at half the speed, and the link to rank 5, which waits for it, is slower by a factor."""
    faults = (Fault("slow_kernels", (4,), 2), Fault("slow_link", (4, 5), factor))
    job = Job(ranks_per_node=2, model_parallel=2, parallelism="tp_dp", steps=5, seed=1, faults=faults)
    return join([digest(trace, rank) for rank, trace in enumerate(traces(job))])


def test_waits_pass_through_a_rank_whose_link_costs_less_than_they() -> None:
    late, beside = (beside_a_slow_link(factor).stragglers[0] for factor in (1.0, 2.0))

    assert (late.rank, beside.rank) == (4, 4)
    assert beside.share == pytest.approx(late.share, abs=0.05)


def test_a_link_that_makes_nobody_late_is_shown() -> None:
    (link,) = beside_a_slow_link(2.0).slow_links

    assert link.members == (4, 5)
    assert not beside_a_slow_link(1.0).slow_links
