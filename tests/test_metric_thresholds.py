"""Both sides of thresholds of communication, the loader, kernels and the user's code, in numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from asked_metrics import fix, job

from diagnose.facts import Unknown
from diagnose.metrics.communication import collectives, sharding
from diagnose.metrics.data import input_work, loader_rate
from diagnose.metrics.data.loader_work import take_turns
from diagnose.metrics.data.loader_workers import (
    least_host_time_factor,
    most_data_wait_left_share,
    most_host_time_factor,
    workers_fed,
)
from diagnose.metrics.data.padding import padding_kind
from diagnose.metrics.kernel_groups.operators import Launching, Signature
from diagnose.metrics.kernels import fp8, fusion, host_calls, optimizer_forms, waves
from diagnose.metrics.lines.sampled import sampled
from diagnose.metrics.lines.user_code import Spent, ThreadWork
from diagnose.metrics.run import capture
from diagnose.predict.cold import warm_factor
from diagnose.trace.stacks import Frame, Stack, StackSamples

MIB = 1 << 20


@pytest.mark.parametrize(("mib", "share"), [(1.05, 0), (0.95, 1)])
def test_a_collective_below_a_mebibyte_is_small(mib: float, share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fix(monkeypatch, collectives, _sizes=[mib * MIB])

    assert collectives.small_collective_share(job()) == share


def test_a_training_state_is_sixteen_bytes_of_a_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    fix(monkeypatch, sharding, _divided_elements=1e9, gather_ranks=4, uses_fsdp=True)

    assert sharding.unsharded_state_bytes(job(timeline=SimpleNamespace(has_gpu=False))) == 12e9


@pytest.mark.parametrize(("until", "unprefetched"), [(52_050, 0.0), (51_800, 1.0)])
def test_a_gather_is_unprefetched_beside_which_kernels_run_for_two_microseconds_at_most(
    until: int, unprefetched: float
) -> None:
    """It begins at 50 us, and a kernel a tenth of a microsecond before."""
    gathers = SimpleNamespace(start=np.array([10_000, 50_000]), gathers=np.array([True, True]))
    gpu = SimpleNamespace(start=np.array([49_900]), end=np.array([until]))
    windows = SimpleNamespace(windows=np.array([[0, 100_000]]))
    given = job(timeline=SimpleNamespace(gpu=gpu), attribution=windows, messages=gathers, kernels=np.array([True]))

    assert sharding.unprefetched_gather_share(given) == unprefetched


@pytest.mark.parametrize(("steps", "told"), [(3, True), (2, False)])
def test_bursts_of_waiting_take_three_steps(steps: int, told: bool) -> None:
    recorded = {"loading": {"wait_ns": [1.0] * steps, "workers": 0}}
    windows = np.zeros((steps, 2), np.int64)
    attribution = SimpleNamespace(pieces=lambda *_: np.zeros((0, 2), np.int64))
    found = input_work.data_wait_burst_factor(
        job(recorded, timeline=SimpleNamespace(windows=windows), attribution=attribution)
    )

    assert isinstance(found, Unknown) is not told


@pytest.mark.parametrize(("wait", "told"), [(0.11, True), (0.09, False)])
def test_a_loader_with_workers_sets_the_pace_from_a_tenth_of_the_step_on(
    wait: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, loader_rate, micro_batch_size=8, accumulation_steps=1)
    found = loader_rate.loader_samples_per_s(job({"loading": {"workers": 2}}, share=lambda *_: wait, step_s=0.5))

    assert found == (16.0 if told else loader_rate.KEEPS_UP)


@pytest.mark.parametrize(
    ("share", "threads", "turns"), [(1.25, 2.0, True), (1.35, 2.0, False), (1.0, 1.6, True), (1.0, 1.4, False)]
)
def test_threads_take_turns_that_use_no_more_than_a_core_and_a_third(share: float, threads: float, turns: bool) -> None:
    assert take_turns(share, 0.1, threads) is turns


@pytest.mark.parametrize(
    ("cores", "share", "waits", "workers"),
    [
        (1.0, 0.12, True, 2),  # a quarter of a core is found in any host: 2.08 workers
        (1.0, 0.13, True, 1),
        (1.5, 0.001, False, 25),  # no worker takes less than two hundredths of a core
        (2.96, 1.0, False, 2),  # 1.96 cores are two whole ones
        (2.945, 1.0, False, 1),
        (2.955, 1.0, False, 2),
    ],
)
def test_cores_feed_so_many_workers(cores: float, share: float, waits: bool, workers: int) -> None:
    assert workers_fed(cores, share, waits=waits) == workers


class Advised:
    """A job that waits for data, whose cores feed so many workers, and in which so many run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, advised: int, running: int, room: int) -> None:
        from diagnose.metrics.data import loader_workers

        fix(monkeypatch, loader_workers, advised_loader_workers=advised, _running=running, loader_worker_room=room)
        fix(monkeypatch, loader_workers, cores_per_rank=8.0)
        self.job = job(share=lambda *causes: 0.3 if causes == ("data-wait",) else 0.1)


def test_where_loading_has_to_leave_three_tenths_of_the_wait_go_at_least(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert most_data_wait_left_share(Advised(monkeypatch, 2, 2, 2).job) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("bound", "left"),
    [
        ("cpu", (0.6 / 2 / 0.5 - 0.45) / 0.6),
        ("io", 0.0),
        (Unknown("nothing sampled it", "take samples"), 0.0),
    ],
)
def test_workers_that_compute_get_half_a_core_where_none_is_idle(
    bound: Any, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two on three cores, beside a rest of the step that handing over makes longer by half of a tenth: what they have
    at seven tenths of a core each takes less time than that.
    """
    from diagnose.metrics.data import loader_workers

    waiting = Advised(monkeypatch, 2, 0, 2).job
    waiting.share = lambda *causes: 0.6 if causes == ("data-wait",) else 0.1
    fix(monkeypatch, loader_workers, cores_per_rank=3.0, loader_bound=bound)

    assert most_data_wait_left_share(waiting) == pytest.approx(left)


@pytest.mark.parametrize(("profiled_ns", "waits"), [(100, 0.3), (150, 0.45), (90, 0.3), (1000, 0.95)])
def test_a_batch_is_as_long_as_without_the_profiler(
    profiled_ns: int, waits: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three tenths of a step that the profiler makes longer; it works a twentieth at least, a worker on half a core."""
    from diagnose.metrics.data import loader_workers

    waiting = Advised(monkeypatch, 1, 0, 1).job
    waiting.share = lambda *causes: 0.3 if causes == ("data-wait",) else 0.0
    waiting.record, windows = job({"steps": {"control_before_ns": [100]}}).record, np.array([[0, profiled_ns]])
    waiting.attribution = SimpleNamespace(windows=windows)
    fix(monkeypatch, loader_workers, cores_per_rank=2.0, loader_bound="cpu")

    left = min(max(waits / 0.5 - (1 - waits), 0.0) / waits, 1.0)
    assert most_data_wait_left_share(waiting) == pytest.approx(left)


def test_the_profiler_may_take_a_third_of_the_host_s_time_that_nobody_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    loading = Advised(monkeypatch, 4, 2, 4).job
    loading.step_s, loading.timeline = 1.0, SimpleNamespace(has_gpu=True)

    assert least_host_time_factor(loading) == pytest.approx(2 / 3)


@pytest.mark.parametrize(("operators", "left"), [(5_000, 0.9), (40_000, 2 / 3)])
def test_without_a_gpu_it_takes_two_microseconds_for_an_operator_of_that_third(
    operators: int, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host works for a tenth of a second."""
    loading = Advised(monkeypatch, 4, 2, 4).job
    loading.step_s, loading.timeline = 1.0, SimpleNamespace(has_gpu=False)
    fix(monkeypatch, capture, operators_of_a_step=operators)

    assert least_host_time_factor(loading) == pytest.approx(left)


@pytest.mark.parametrize(
    ("gpu", "measured", "operators", "factor"),
    [
        (False, 1.3, 1_000, 1.3),  # as measured
        (False, 0.98, 1_000, 1 / 0.8),  # 2 of 10 ms
        (False, Unknown("no step", "take some"), 1_000, 1 / 0.8),
        (False, 0.98, 9_000, 2.0),  # half of the step at most
        (True, 0.98, 1_000, 1.0),
    ],
)
def test_the_profiler_takes_two_microseconds_for_an_operator_at_most_or_what_was_measured(
    gpu: bool, measured: float | Unknown, operators: int, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, capture, profiler_overhead_factor=measured, operators_of_a_step=operators)
    profiled = job(timeline=SimpleNamespace(has_gpu=gpu), step_s=0.01)

    assert capture.most_profiler_factor(profiled) == pytest.approx(factor)


@pytest.mark.parametrize(("advised", "slower"), [(2, 1.3), (7, 1.5)])
def test_handing_over_slows_the_host_by_a_third_and_by_half_without_an_idle_core(
    advised: int, slower: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight cores."""
    from diagnose.metrics.data import loader_workers

    fix(monkeypatch, loader_workers, hand_over_ns=None)

    assert most_host_time_factor(Advised(monkeypatch, advised, 0, advised).job) == pytest.approx(slower)


@pytest.mark.parametrize(("batch_ms", "slower"), [(2, 1.1), (4, 1.2), (50, 1.3)])
def test_a_small_batch_is_handed_over_soon(batch_ms: int, slower: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.5 times as long as its bytes let expect at worst, twice in a step whose host works for a tenth of a second."""
    from diagnose.metrics.data import loader_workers

    loading = Advised(monkeypatch, 2, 0, 2).job
    loading.step_s = 1.0
    fix(monkeypatch, loader_workers, hand_over_ns=1e6 * batch_ms, batches_of_a_step=2)

    assert most_host_time_factor(loading) == pytest.approx(slower)


@pytest.mark.parametrize(
    ("gpu", "advised", "batch_ms", "slower"),
    [(False, 2, 2, 1.04), (False, 7, 2, 1.08), (False, 7, 50, 1.5), (False, 2, 50, 1.3), (True, 7, 2, 1.0)],
)
def test_without_a_gpu_handing_over_takes_what_bytes_let_expect_at_best_and_twice_without_an_idle_core(
    gpu: bool, advised: int, batch_ms: int, slower: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two batches in a step whose host works for a tenth of a second."""
    from diagnose.metrics.data import loader_workers

    loading = Advised(monkeypatch, advised, 0, advised).job
    loading.step_s, loading.timeline = 1.0, SimpleNamespace(has_gpu=gpu)
    fix(monkeypatch, loader_workers, hand_over_ns=1e6 * batch_ms, batches_of_a_step=2)

    assert least_host_time_factor(loading) == pytest.approx(slower)


@pytest.mark.parametrize(
    ("work_ms", "before_ms", "factor"),
    [
        (4, 30, 0.75),  # a millisecond
        (1, 30, 0.4),
        (4, 2, 0.875),  # a quarter of what passes before
        (30, 30, 29 / 30),
        (34, 30, 1.0),  # too little to count
        (0, 30, 1.0),
    ],
)
def test_work_behind_other_code_on_a_cpu_may_take_a_millisecond_less(
    work_ms: float, before_ms: float, factor: float
) -> None:
    assert warm_factor(work_ms / 1e3, before_ms / 1e3) == pytest.approx(factor)


@pytest.mark.parametrize(("batches", "beyond", "kind"), [(4, 9, "static"), (3, 9, ""), (4, 7, ""), (5, 9, "static")])
def test_padding_is_static_of_four_batches_with_eight_tokens_that_no_sample_needs(
    batches: int, beyond: int, kind: str
) -> None:
    padding = {"batches": batches, "least_length": 100, "most_length": 100, "tokens": 100}
    given: dict[str, Any] = {"padding_share": 0.3, "padding": {**padding, "beyond_longest_tokens": beyond}}
    found = padding_kind(job({"batch": given}, recorded=lambda value: value))

    assert found == kind or (not kind and isinstance(found, Unknown))


@pytest.mark.parametrize(("in_rows", "kind"), [(51, "static"), (49, "dynamic")])
def test_padding_is_static_where_rows_had_most_of_it_before_they_were_collated(in_rows: int, kind: str) -> None:
    padding = {"batches": 1, "least_length": 100, "most_length": 100, "tokens": 400, "beyond_longest_tokens": 0}
    rows = {"padded_tokens": in_rows, "collated_tokens": 100 - in_rows}
    given: dict[str, Any] = {"padding_share": 0.25, "padding": padding, "rows": rows}

    assert padding_kind(job({"batch": given}, recorded=lambda value: value)) == kind


@pytest.mark.parametrize(("capability", "has"), [(8.9, True), (8.0, False), (9.0, True)])
def test_fp8_comes_with_ada(capability: float, has: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    fix(monkeypatch, fp8, compute_capability=capability)

    assert fp8.has_fp8(job(device=SimpleNamespace(gpu=None))) is has


@pytest.mark.parametrize(("described", "known"), [(82, True), (78, False)])
def test_launches_say_something_of_the_step_that_describe_four_fifths_of_it(
    described: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.array([0.5, np.nan])
    monkeypatch.setattr(waves, "occupancy_of", lambda m, at: values)
    found = waves.occupancy_share(job(kernels=np.ones(2, bool), own_time=np.array([described, 100 - described])))

    assert isinstance(found, Unknown) is not known


@pytest.mark.parametrize(("samples", "known"), [(31, True), (29, False)])
def test_thirty_samples_of_the_user_s_code_name_its_lines(samples: int, known: bool) -> None:
    stacks = tuple(
        Stack((Frame("a.py", 1, name),), "", "", taken)
        for name, taken in (("f", samples // 2), ("g", samples - samples // 2))
    )
    found = sampled(StackSamples(samples, samples, 1, 5.0, 1.0, 0.0, stacks))

    assert isinstance(found, Unknown) is not known


def spent(function: str, weight: float, caller: str = "main") -> Spent:
    frames = tuple(Frame("a.py", 1, name) for name in (caller, function))
    return Spent(frames, "", "", weight)


@pytest.mark.parametrize(("of_it", "devoted"), [(0.82, True), (0.78, False)])
def test_a_function_is_devoted_to_what_four_fifths_of_its_time_go_to(of_it: float, devoted: bool) -> None:
    code = ThreadWork((spent("work", 50), spent("rest", 50)), 100, "samples", "", 1.0)

    assert (("a.py", "work") in code.devoted({("a.py", "work"): 50 * of_it})) is devoted


@pytest.mark.parametrize(("weight", "around"), [(0.97, False), (0.99, True)])
def test_what_is_around_nearly_everything_is_devoted_to_nothing(weight: float, around: bool) -> None:
    code = ThreadWork(
        (spent("loop", 100 * weight), spent("rest", 100 * (1 - weight), "other")), 100, "samples", "", 1.0
    )

    assert (("a.py", "loop") not in code.devoted({("a.py", "loop"): 100 * weight})) is around


@pytest.mark.parametrize(("mallocs", "caches"), [(11, False), (9, True)])
def test_an_allocator_asks_the_driver_ten_times_a_step_where_it_keeps_nothing(
    mallocs: int, caches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix(monkeypatch, host_calls, _tensors_allocated=1.0)
    monkeypatch.setattr(host_calls, "_calls_per_step", lambda m, of: mallocs)
    trace = SimpleNamespace(rows_of=lambda *_: np.array([True]))

    assert host_calls.allocator_caches(job(timeline=SimpleNamespace(trace=trace))) is caches


def test_a_foreach_update_takes_half_of_a_single_one_s_time_at_best(monkeypatch: pytest.MonkeyPatch) -> None:
    fix(monkeypatch, optimizer_forms, optimizer_faster_form="foreach", optimizer_name="Adam", optimizer_kind="single")

    assert optimizer_forms.least_optimizer_left_share(job()) == 0.5


@pytest.mark.parametrize(("second", "recomputed"), [("aten::mul", 1.0), ("aten::_softmax_backward_data", 7 / 6)])
def test_fused_attention_reaches_a_third_to_three_quarters_of_the_peak_for_half_of_the_scores_or_all(
    second: str, recomputed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two products that take a tenth of the time of attention at the peak, and scores that are computed again."""
    each = (Signature("aten::bmm", ((5, 10), (10, 5)), 0, calls=2), Signature(second, ((5, 5),), 1, calls=1))
    found = Launching(each, of_operator=np.array([0, 0, 1]), of_activity=np.array([0, 0, 1]))
    fix(monkeypatch, fusion, eager_attention=np.ones(3, bool), peak_flops=(1e7, ""), launching=found)
    given = job(own_time=np.array([250_000, 250_000, 500_000]))

    assert fusion.least_fused_attention_left_share(given) == pytest.approx(0.1 * 0.5 / 0.73 * recomputed)
    assert fusion.most_fused_attention_left_share(given) == pytest.approx(0.1 / 0.3 * recomputed)
