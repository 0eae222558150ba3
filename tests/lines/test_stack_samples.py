"""The sampler beside a training thread: what counts, when it ends, and that it holds nothing of the job."""

import _thread
import os
import sys
import threading
import time
import traceback
import weakref

import pytest

from diagnose.probes.side_thread import SideThread
from diagnose.probes.stacks import sampling
from diagnose.probes.stacks.folding import Folding
from diagnose.probes.stacks.sampling import ENOUGH, StackSampler

pytestmark = pytest.mark.usefixtures("threads_end")


@pytest.fixture
def sampler() -> StackSampler:
    return StackSampler(threading.get_ident())


def until_looked(sampler: StackSampler) -> None:
    """A step: some looks long."""
    looked = sum(sampler._pending.values())
    while sum(sampler._pending.values()) < looked + 3:
        time.sleep(0.001)


def functions(sampler: StackSampler) -> set[str]:
    """The functions of this file that have samples."""
    folded = Folding(sampler.codes).of(sampler.stacks)
    return {
        function for frames, *_ in folded for file, _, function in frames if file.endswith(os.path.basename(__file__))
    }


def test_samples_count_when_their_step_is_over(sampler: StackSampler) -> None:
    sampler.start()
    until_looked(sampler)
    assert (sampler.samples, sampler.steps) == (0, 0)

    sampler.step_ended(7)
    sampler.stop()

    assert sampler.samples >= 3
    assert (sampler.steps, sampler.first_step) == (1, 7)
    assert sampler.wall_ns > 0 < sampler.cost_ns
    assert "until_looked" in functions(sampler)


def test_a_pause_drops_the_running_step_and_the_next_one_begins_again(sampler: StackSampler) -> None:
    def passed_over() -> None:
        until_looked(sampler)

    sampler.start()
    passed_over()
    sampler.pause()
    assert not sampler.step_ended(7)  # begins again here
    until_looked(sampler)
    sampler.step_ended(8)
    sampler.stop()

    assert (sampler.steps, sampler.first_step) == (1, 8)
    assert "passed_over" not in functions(sampler)


@pytest.mark.parametrize(("jobs", "meanwhile"), [(0.005, {3e-5, 5e-6}), (2e-6, {2e-6})])
def test_the_interpreter_switches_soon_while_sampling_and_as_the_job_has_it_afterwards(
    sampler: StackSampler, jobs: float, meanwhile: set[float]
) -> None:
    before, seen = sys.getswitchinterval(), set[float]()
    sys.setswitchinterval(jobs + 5e-7)  # it is cut to whole microseconds
    try:
        sampler.start()
        while seen != meanwhile or not sum(sampler._pending.values()):
            seen.add(round(sys.getswitchinterval(), 6))
            assert seen <= meanwhile
            time.sleep(2e-5)
        sampler.stop()
        assert sys.getswitchinterval() == pytest.approx(jobs)
    finally:
        sys.setswitchinterval(before)


def test_an_interval_that_the_job_sets_meanwhile_stays(sampler: StackSampler) -> None:
    before = sys.getswitchinterval()
    try:
        sampler.start()
        sys.setswitchinterval(0.02)
        sampler.stop()
        assert sys.getswitchinterval() == pytest.approx(0.02)
    finally:
        sys.setswitchinterval(before)


def test_samples_are_told_apart_by_their_step(sampler: StackSampler) -> None:
    sampler.start()
    for number in (7, 8, 10):
        until_looked(sampler)
        sampler.step_ended(number)
    sampler.stop()

    assert {step for by_step in sampler.by_step.values() for step in by_step} == {7, 8, 10}
    assert [ns is None for ns in sampler.step_ns] == [False, False, True, False]


def sampling_threads(sampler: StackSampler) -> int:
    """How many threads run that the sampler began; those of other tests may be there."""
    frames = [frame for top in sys._current_frames().values() for frame, _ in traceback.walk_stack(top)]
    side = [frame for frame in frames if frame.f_code is SideThread._run.__code__]
    return sum(getattr(frame.f_locals.get("run"), "__self__", None) is sampler for frame in side)


def test_there_are_enough_at_the_end_of_a_step(sampler: StackSampler) -> None:
    sampler.start()
    until_looked(sampler)
    sampler._pending[1, 0] = ENOUGH
    assert sampling_threads(sampler)

    assert sampler.step_ended(7)
    until = time.monotonic() + 60
    while (
        sampling_threads(sampler) and time.monotonic() < until
    ):  # it is told that the thread ends, just before it does
        time.sleep(0.001)
    assert not sampling_threads(sampler)
    assert sampler.step_ended(8)
    assert sampler.steps == 1


def test_nothing_is_kept_alive(sampler: StackSampler) -> None:
    class Batch:
        pass

    def step() -> "weakref.ref[Batch]":
        batch = Batch()
        found = sampler._look()
        assert any(sampler.codes[identity][0].co_name == "step" for identity in found[::2])
        return weakref.ref(batch)

    assert step()() is None


def test_a_failing_look_ends_the_sampling_and_nothing_else(
    sampler: StackSampler, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def look() -> tuple[int, ...]:
        raise ValueError("of an audit hook")

    monkeypatch.setattr(sampler, "_look", look)
    sampler.start()
    while not sampler.why_none:
        time.sleep(0.001)

    assert sampler.step_ended(7)
    assert sampler.why_none == "the sampling failed: ValueError"
    assert capfd.readouterr() == ("", "")


def test_without_another_thread_there_are_no_samples(sampler: StackSampler, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_given: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", none)
    sampler.start()

    assert sampler.step_ended(7)
    assert sampler.why_none == "no thread could be started"


def test_an_interpreter_that_runs_threads_at_once_is_not_looked_at(
    sampler: StackSampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling.sys, "_is_gil_enabled", lambda: False, raising=False)
    sampler.start()

    assert "at once" in sampler.why_none
    assert sampler.step_ended(7)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system decides when a thread wakes")
def test_code_that_frees_the_interpreter_for_moments_is_found_there(sampler: StackSampler) -> None:
    def frees_it_often() -> None:
        for _ in range(60):
            sum(number * number for number in range(2500))
            os.stat(".")  # frees it for less time than another thread takes to wake

    sampler.start()
    for _ in range(60):
        frees_it_often()
        time.sleep(0.001)
    sampler.step_ended(1)
    sampler.stop()

    found = Folding(sampler.codes).of(sampler.stacks)
    busy = sum(samples for (frames, *_), samples in found.items() if frames[-1][2] == "frees_it_often")
    assert busy > 0.3 * sum(found.values())
