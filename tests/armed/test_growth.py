"""Growth over the steps of an armed run: what leaks is named, what only warms up or comes and goes is not."""

from collections.abc import Callable

import numpy as np
import pytest

from diagnose.series.grown import Growth, GrowthReport, growth_over_run
from diagnose.series.growth import Container, Held

MIB = 1 << 20
STEPS = np.arange(0, 1000, 10)
LIST = Container(
    where="train.py train()", name="losses", kind="list", per_step=1.0, length=900, item="tensor", item_bytes=0,
    graph=True,
)  # fmt: skip


def held(
    rank: int = 0, growing: tuple[Container, ...] = (), limits: dict[str, int] | None = None, **columns: object
) -> Held:
    """A rank with readings at every tenth step; a column is a function of the step, in MiB, or counts."""
    readings = [
        (int(step), {name: int(at(float(step))) for name, at in columns.items() if callable(at)}) for step in STEPS
    ]
    return Held(rank=rank, readings=readings, growing=growing, limits=limits or {})


def bytes_of(mib: Callable[[float], float]) -> Callable[[float], float]:
    return lambda step: MIB * mib(step)


def told(*ranks: Held) -> GrowthReport:
    return growth_over_run(ranks, 0.1)


def one(*ranks: Held) -> Growth:
    (grown,) = told(*ranks).grown
    return grown


NOISE = np.random.default_rng(0).normal(0, 1, 2000)


def test_a_straight_leak_is_named_with_its_rate_and_when_nothing_is_left() -> None:
    """A tenth of a MiB in each step under noise of 1 MiB; 500 MiB are left at the end."""
    leak = bytes_of(lambda step: 300 + 0.1 * step + NOISE[int(step)])
    grown = one(held(host=leak, left=bytes_of(lambda step: 600 - 0.1 * step)))

    assert (grown.what, grown.unit) == ("host memory", "bytes")
    assert grown.per_step == pytest.approx(0.1 * MIB, rel=0.1)
    assert grown.error < 0.02 * MIB
    assert grown.steps_left == pytest.approx(5000, rel=0.1)
    assert grown.seconds_left == pytest.approx(500, rel=0.1)


HEALTHY = {
    "steady": lambda step: 300 + NOISE[int(step)],
    "a rise at an evaluation": lambda step: 300 + 80 * (step >= 500),
    "warm-up": lambda step: 300 + min(step, 150),
    "a cache that fills": lambda step: 300 + 30 * (1 - np.exp(-step / 300)),
    "cycles until the collector comes": lambda step: 300 + step % 130 / 2,
    "ever longer batches, ever seldomer": lambda step: 300 + 20 * np.log1p(step),
    "what is given back": lambda step: 400 - 0.1 * step,
}


@pytest.mark.parametrize("mib", HEALTHY.values(), ids=HEALTHY)
def test_nothing_is_told_of_what_comes_to_an_end_or_goes(mib: Callable[[float], float]) -> None:
    report = told(held(host=bytes_of(mib)))

    assert report.grown == ()
    assert "host memory" in report.judged


def test_losses_kept_with_their_graph_are_named_by_their_list() -> None:
    grown = one(held(host=bytes_of(lambda step: 300 + 0.02 * step), growing=(LIST,)))

    assert grown.held_in == LIST
    assert grown.do.startswith("keep loss.item()")


def test_the_rank_that_leaks_is_named_alone() -> None:
    leak = held(1, host=bytes_of(lambda step: 300 + 0.1 * step))
    grown = one(held(0, host=bytes_of(lambda step: 300.0)), leak)

    assert (grown.rank, grown.ranks) == (1, (1,))
    assert grown.says.startswith("host memory on rank 1: ")


def test_device_memory_that_tensors_take_is_told_from_what_is_only_reserved() -> None:
    """Stand-ins for the readings of a GPU of 80,000 MiB."""
    limits = {"device_total": 80_000 * MIB}
    flat, rising = bytes_of(lambda step: 9000.0), bytes_of(lambda step: 10_000 + step)
    leak = one(held(allocated=rising, reserved=bytes_of(lambda step: 10_500 + step), limits=limits))
    fragments = one(held(allocated=flat, reserved=rising, limits=limits))

    assert (leak.what, fragments.what) == ("device memory", "reserved device memory")
    assert leak.steps_left == pytest.approx(68_500, rel=0.02)
    assert "expandable_segments" in fragments.do


def test_pages_that_workers_copy_are_told_from_what_they_keep() -> None:
    """Of 900 MiB that they had at the fork some 0.1 MiB become their own in each step."""
    copies = held(workers=bytes_of(lambda step: 20 + 0.1 * step), workers_anonymous=bytes_of(lambda step: 920.0))
    cache = held(
        workers=bytes_of(lambda step: 20 + 0.1 * step), workers_anonymous=bytes_of(lambda step: 920 + 0.1 * step)
    )

    assert one(copies).what == "workers' copies"
    assert one(cache).what == "workers' memory"


def test_files_left_open_are_counted_against_the_limit() -> None:
    grown = one(held(descriptors=lambda step: 20 + step, limits={"most_descriptors": 2000}))

    assert (grown.what, grown.unit, grown.per_step) == ("descriptors", "count", pytest.approx(1))
    assert grown.steps_left == pytest.approx(990, abs=10)


def test_few_steps_are_unknown_and_say_how_many_it_takes() -> None:
    short = Held(readings=[(step, {"host": MIB * step}) for step in range(0, 100, 10)])
    report = told(short)

    assert (report.grown, report.judged) == ((), ())
    assert report.not_told is not None
    assert "400 steps" in report.not_told.capture_next
