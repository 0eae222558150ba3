"""What changes have in common is computed once, and no change is answered by what another left."""

from random import Random

import numpy as np
import pytest
from analysed import ADD, GEMM, timeline
from kineto import COMMUNICATION, Trace
from replay.replayed import halved, of_kind, replay_of, steps

from diagnose.arrays import Coded
from diagnose.predict.replay import HostSpeeds, StepChange
from diagnose.predict.replay.costs import costs_of
from diagnose.predict.replay.items import items_of
from diagnose.predict.replay.lru import lru_cached
from diagnose.timeline import Timeline


def busy_step(job: Trace) -> None:
    """Kernels of two kinds, a collective that the next kernel waits for, and calls that wait."""
    for _ in range(20):
        job.op("aten::mm", kernel=GEMM, gpu_us=40, host_us=9)
        job.launch(ADD, 3)
    job.item()
    job.collective("allreduce", 1 << 20, 300)
    job.wait(7, COMMUNICATION)
    job.launch(ADD, 5)
    job.sync()


@pytest.fixture(scope="module")
def line() -> Timeline:
    return timeline(steps(busy_step, world=2))


def changes(line: Timeline) -> list[StepChange]:
    """Of each part of a step, alone and with others; more than are remembered."""
    waits = replay_of(line).waits
    fewer = [np.isin(np.arange(len(line.trace)), waits[kept:]) for kept in (0, 1, 2)]
    adds = of_kind(line, "elementwise")
    assert len(waits) > 2
    assert adds.any()
    return [
        StepChange(),
        *(StepChange(no_wait=mask) for mask in fewer),
        *(StepChange(no_wait=mask, overlap=True) for mask in fewer),
        *(StepChange(host={"dispatch": factor}) for factor in (0.1, 0.5, 0.9)),
        *(StepChange(host={"dispatch": factor}, host_speeds=HostSpeeds(0.6, {})) for factor in (0.1, 0.5, 1.0)),
        *(StepChange(launches=factor) for factor in (0.25, 0.5)),
        StepChange(kernels=Coded.of(np.where(adds, 0.0, 1.0))),
        StepChange(kernels=Coded.of(np.where(adds, 0.0, 1.0)), no_wait=fewer[1], host={"sync": 0.5}),
        StepChange(merge=adds),
        StepChange(communication=0.5, overlap=True),
        halved(line, "gemm"),
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_change_comes_to_the_same_after_any_others(line: Timeline, seed: int) -> None:
    each = changes(line)
    alone = [replay_of(line).step_ns(change) for change in each]
    assert len(set(alone)) > len(each) / 2
    order = Random(seed).sample(range(len(each)), len(each))
    together = replay_of(line)
    assert [together.step_ns(each[at]) for at in order] == [alone[at] for at in order]


def test_changes_that_leave_the_same_waits_share_their_links(line: Timeline) -> None:
    items = items_of(line, line.steps.host)
    unchanged = costs_of(line.gpu, items, StepChange()).links
    assert costs_of(line.gpu, items, halved(line, "gemm")).links is unchanged
    assert costs_of(line.gpu, items, StepChange(no_wait=np.ones(len(line.trace), bool))).links is not unchanged
    assert costs_of(line.gpu, items, StepChange(overlap=True)).links is not unchanged


def test_what_was_asked_for_last_is_kept() -> None:
    known: dict[str, str] = {}
    made = []

    def asked(key: str) -> str:
        return lru_cached(known, key, lambda: made.append(key) or key.upper())

    assert [asked(key) for key in "abacadae"] == [*"ABACADAE"]
    assert made == [*"abcde"]
    assert [*known] == [*"cdae"]
