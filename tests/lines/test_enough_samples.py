"""Sampling goes on until it is known what takes the time of the run, slow steps that come seldom included."""

import pytest

from diagnose.probes.stacks.enough import ENOUGH, LONGEST_NS, SampledSteps

MS = 1_000_000


def sampled(times_ms: list[float]) -> SampledSteps:
    steps = SampledSteps()
    for ms in times_ms:
        steps.add(int(ms * MS))
    return steps


@pytest.mark.parametrize(
    ("times_ms", "enough"),
    [
        ([10.0] * 20, True),
        ([1.0] * 15 + [60.0], False),
        (([1.0] * 15 + [60.0]) * 5, False),
        (([1.0] * 15 + [60.0]) * 20, True),
        ([10.0] * 99 + [60.0], True),
        ([1.0, 60.0] * 20, True),
        ([2.0] * 9 + [LONGEST_NS / MS], True),
    ],
    ids=["alike", "one rollout", "a few", "many", "too short to matter", "every other step", "long enough"],
)
def test_so_many_steps_are_enough(times_ms: list[float], enough: bool) -> None:
    steps = sampled(times_ms)

    assert steps.enough(ENOUGH) is enough
    assert not steps.enough(ENOUGH - 1)
