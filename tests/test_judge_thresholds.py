"""Both sides of thresholds of what is judged and told of a diagnosis, in numbers."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from diagnose.judge import capacity, findings, mfu, next_change, user_code
from diagnose.predict.whatif import Predictor
from diagnose.ranks import report
from diagnose.ranks.stragglers import divergence


@pytest.mark.parametrize(("growth", "stays"), [(1.009, True), (1.011, False), (0.991, True), (0.989, False)])
def test_a_batch_stays_as_it_is_within_a_hundredth(growth: float, stays: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_growth", lambda *_: growth)
    for name in ("_learning_rate", "_critical"):
        monkeypatch.setattr(findings, name, lambda *_: "")
    patch = SimpleNamespace(values={"per_device_train_batch_size": 8})
    rule: Any = SimpleNamespace(patch=patch, patch_for=lambda facts: None)

    assert ("stays as it is" in findings.batch_advice(rule, {})) is stays


def test_jobs_take_a_tenth_more_or_less_memory_than_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "largest_micro_batch", lambda plan, times: times)
    ledger: Any = SimpleNamespace(reserved_bytes=100)
    nothing: Any = None

    assert capacity._range_of(ledger, None)(nothing) == pytest.approx((1.1, 0.9))
    assert capacity._range_of(ledger, 130)(nothing) == pytest.approx((1.3, 0.9))


@pytest.mark.parametrize(("ratio", "apart"), [(1.048, False), (1.052, True), (0.952, False), (0.948, True)])
def test_what_ran_and_what_is_declared_agree_within_a_twentieth(
    ratio: float, apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mfu, "declared_flops", lambda m: ("palm", 100.0))
    monkeypatch.setattr(mfu, "counted_flops", lambda m: 100 * ratio)
    monkeypatch.setattr(mfu, "_unused_option", lambda m: "")
    monkeypatch.setattr(mfu, "_why_apart", lambda *_: "apart")
    nothing: Any = None

    assert mfu._check(nothing).endswith("apart") is apart


def why_first(opens: float, more: float, numerics: bool = False, severity: str = "warning") -> str:
    opener, other = (
        SimpleNamespace(predicted_speedup=(least, 2.0), numerics=alters, severity=severity)
        for least, alters in ((opens, False), (more, numerics))
    )
    given: Any = (opener, SimpleNamespace(findings=[opener, other]))
    return next_change._why_first(*given)


@pytest.mark.parametrize(("more", "less_sure"), [(1.1055, True), (1.1045, False)])
def test_a_change_promises_more_by_half_a_per_cent(more: float, less_sure: bool) -> None:
    assert (why_first(1.1, more) != next_change._OPENS_PLAN) is less_sure


@pytest.mark.parametrize(("more", "alike"), [(1.1195, True), (1.1205, False)])
def test_a_change_of_numerics_yields_to_one_that_promises_as_much_within_two_per_cent(more: float, alike: bool) -> None:
    assert (why_first(1.1, more, numerics=True) == next_change._GENTLER) is alike
    assert why_first(1.1, more) == next_change._LEADS


def test_a_change_of_numerics_for_information_is_an_option_however_much_it_buys() -> None:
    assert why_first(1.1, 1.5, numerics=True, severity="info") == next_change._OPTION
    assert why_first(1.1, 1.5, numerics=True) == next_change._LEADS


def test_a_change_that_may_cost_time_is_as_sure_as_one_that_may_buy_nothing() -> None:
    assert why_first(0.85, 1.0) == next_change._OPENS_PLAN


@pytest.mark.parametrize(("share", "named"), [(0.021, 1), (0.019, 0)])
def test_a_line_is_named_from_two_hundredths_on(share: float, named: int) -> None:
    function = SimpleNamespace(function=("a.py", "f"), line=1, weight=1.0, most_in=None, calls=None)
    code: Any = SimpleNamespace(share=lambda weight: share)

    assert len(user_code._named([function], code, "samples")) == named  # type: ignore[list-item]


@pytest.mark.parametrize(("agreed", "told"), [(0.91, True), (0.89, False)])
def test_clocks_agree_with_durations_on_nine_tenths_of_the_waiting(
    agreed: float, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "agreement", lambda *_: agreed)
    for name in (
        "align",
        "missing_ranks",
        "clocks_of",
        "transient_stragglers_of",
        "possible_stragglers_of",
    ):
        monkeypatch.setattr(report, name, lambda *_: ())
    for name in ("mismatches_of", "torn_hosts", "traffic_of"):
        monkeypatch.setattr(report, name, lambda *_: ())
    monkeypatch.setattr(report, "Postmortem", lambda **fields: fields)
    changes = SimpleNamespace(changes=(), error=None, because="")
    view = SimpleNamespace(distortion=1, pipeline=None)
    job: Any = SimpleNamespace(ranks=(1, 2), match=(), changes=changes, view=view, slow_links=())
    found: Any = report.postmortem_of(job, ())

    assert found["clocks_agree"] is told


@pytest.mark.parametrize(("excess", "found"), [(110, True), (90, False)])
def test_a_segment_diverges_by_a_tenth_of_the_lateness(
    excess: int, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a rank that is late by a microsecond."""
    names = (("a", False), ("b", False))
    own = divergence.Walk(names, np.array([500, 500 + excess]), np.array([0, 500]))
    usual = divergence.Walk(names, np.array([500, 500]), np.array([0, 500]))
    monkeypatch.setattr(divergence, "_walks", lambda timeline, *_: [own if timeline.rank == 3 else usual])
    timelines: Any = [SimpleNamespace(rank=rank, has_gpu=True, steps=SimpleNamespace(numbers=(1,))) for rank in (0, 3)]
    late: Any = SimpleNamespace(rank=3, steps=(1,), cause="host", own_ns=1000)

    assert bool(divergence.first_diverging(late, timelines, {3})) is found


@pytest.mark.parametrize(("gain", "hidden"), [(1.022, True), (1.018, False)])
def test_a_gain_is_hidden_by_the_host_that_the_device_alone_would_have(gain: float, hidden: bool) -> None:
    rule: Any = SimpleNamespace(remedy=SimpleNamespace(kernels={"a": 1}))
    given: Any = SimpleNamespace(_is_calibrated=False, _device_ns=lambda rules: 1000.0 * gain if not rules else 1000.0)

    assert Predictor._is_hidden(given, rule, (), 1.0) is hidden
    assert Predictor._is_hidden(given, rule, (), 1.021) is False
