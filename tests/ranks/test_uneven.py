"""Ranks that are late by what they run or how they are set up: what is said of them."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from analysed import job
from kineto import Trace, collective
from msgspec.structs import replace
from simulator import Fault, Job, Kind, simulate

from diagnose import ranks
from diagnose.analysis import analyze
from diagnose.analysis.rank import analyses
from diagnose.attribution.causes import CORE_WAIT, MATRIX_OPERATORS
from diagnose.metrics.settings import Settings
from diagnose.ranks import join
from diagnose.ranks.stragglers.straggler_report import stragglers_of
from diagnose.trace import Loading
from diagnose.trace.record import decoded
from diagnose.trace.record_setup import rank_settings

COMPILED = {"file": "train.py", "function": "step", "line": 3, "again": "tensor 'x' size mismatch at index 0"}
USUAL = {
    "torch_settings": {"threads": 1},
    "environment": {"OMP_NUM_THREADS": "1"},
    "cores": {"usable": 8, "quota": None},
    "versions": {"torch": "2.13.0", "cuda": None},
    "batch": {"shapes": {"x": [8, 512]}},
    "compilations": None,
}


OPERATORS = ("aten::embedding", "aten::index", "aten::view", "aten::permute")


def slower_host(count: int) -> list[Trace]:
    """Ranks that run the same operators, which take twice as long on the last one."""
    traces = [Trace(rank=r, world=count) for r in range(count)]
    for _ in range(6):
        with ExitStack() as opened:
            for trace in traces:
                opened.enter_context(trace.step())
                for name in OPERATORS * 3:
                    trace.cpu_op(name, 500 if trace.rank == count - 1 else 250)
            collective(traces, "allreduce", 1 << 22, 100, wait=True)
            for trace in traces:
                trace.sync(stream=None)
    return traces


def with_records(found: ranks.Job, records: Sequence[Mapping[str, Any]]) -> ranks.Job:
    """The job, with what was recorded of each rank."""
    settings = [rank_settings(decoded(record)) for record in records]
    return join([replace(rank, settings=each) for rank, each in zip(found.ranks, settings, strict=True)])


def told(records: Sequence[Mapping[str, Any]]) -> str:
    """The reason given for the last of the ranks, whose host is slower."""
    (straggler,) = stragglers_of(with_records(job(slower_host(len(records))), records))
    assert straggler.rank == len(records) - 1
    return straggler.because


@pytest.mark.parametrize(
    ("of_the_rank", "words"),
    [
        ({"torch_settings": {"threads": 24}}, "torch_settings.threads 24 (the others 1)"),
        ({"environment": {}}, "environment.OMP_NUM_THREADS not set (the others 1)"),
        ({"cores": {"usable": 1, "quota": None}}, "cores.usable 1 (the others 8)"),
        ({"versions": {"torch": "2.12.0"}}, "versions.torch 2.12.0 (the others 2.13.0)"),
        ({"compilations": {"compiled": [COMPILED] * 7}}, "compilations.again 7 (the others 0)"),
        ({"dataloader": {"num_workers": 0}}, ""),  # what the others did not record is not known to differ
        ({"batch": {"shapes": {"x": [16, 512]}}}, ""),  # the work itself is compared
        ({"torch_settings": None}, ""),
    ],
)
@pytest.mark.parametrize("count", [2, 4])
def test_what_is_recorded_of_a_late_rank_alone_stands_beside_it(
    of_the_rank: dict[str, Any], words: str, count: int
) -> None:
    because = told([*[USUAL] * (count - 1), USUAL | of_the_rank])

    assert (f"unlike the other ranks it has {words}" in because) if words else ("unlike" not in because)


def test_settings_on_which_the_others_disagree_tell_nothing() -> None:
    records = [USUAL | {"torch_settings": {"threads": threads}} for threads in (1, 2, 3, 4)]

    assert "unlike" not in told(records)


def test_a_late_rank_without_a_record_is_said_to_have_no_other_settings() -> None:
    assert "unlike" not in told([USUAL, USUAL, {}])


@pytest.mark.parametrize("gpu", [True, False])
@pytest.mark.parametrize(("faults", "told"), [((Fault("rotating", ()),), True), ((), False)])
def test_unequal_batches_are_named_as_such_and_nobody_is_accused(
    gpu: bool, faults: tuple[Fault, ...], told: bool, tmp_path: Path
) -> None:
    simulate(Job(ranks=4, ranks_per_node=4, gpu=gpu, steps=7, seed=3, faults=faults)).write(tmp_path)

    found = analyze(tmp_path)

    turns = [finding for finding in found.findings if finding.rule == "rotating-stragglers"]
    assert found.stragglers == ()
    assert bool(turns) == told
    assert all("by a budget of tokens" in finding.do and finding.predicted_speedup for finding in turns)


@pytest.mark.parametrize(("fault", "cause"), [("more_work", "more_work"), ("slow_kernels", "cores")])
def test_a_rank_that_waits_for_a_core_because_it_runs_more_has_more_work(
    fault: Kind, cause: str, tmp_path: Path
) -> None:
    """The time that its matrix products take longer counts as waiting for a core."""
    simulate(Job(ranks=4, ranks_per_node=4, gpu=False, steps=6, faults=(Fault(fault, (1,)),))).write(tmp_path)
    files = [(tmp_path / f"rank{rank}.json.gz", rank) for rank in range(4)]
    digests = [own.digest for own in analyses(files, Settings(), Loading())]
    starved = [
        replace(rank, causes=tuple(CORE_WAIT if name == MATRIX_OPERATORS else name for name in rank.causes))
        for rank in digests
    ]

    assert [(late.rank, late.cause) for late in join(starved).stragglers] == [(1, cause)]
