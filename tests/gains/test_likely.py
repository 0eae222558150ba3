"""The likely value of a range, its usual part, and the words for a change that may slow the step down."""

import io
from types import SimpleNamespace
from typing import Any

import diagnoses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console
from whatif.predicted import loading, predictor, rule, steps

from diagnose.diagnosis.terms import expected_range, may_slow
from diagnose.predict.plan import Weight, plan_of, severity_of
from diagnose.predict.real_gains import likely, positions, usual
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.text import render
from diagnose.report.views.gains import gain, gain_of, saved_ms

WAITS = rule("host = { data-wait = [0.0, 0.5] }")


def test_the_likely_value_lies_where_real_gains_came_to_lie_in_the_logarithm_of_the_range() -> None:
    found = {kind: likely((1.0, 4.0), kind) for kind in positions()}

    assert found == {kind: pytest.approx(4**each.likely) for kind, each in positions().items()}
    assert all(0 <= each.likely <= 1 and each.where for each in positions().values())


def test_a_range_with_an_open_end_and_a_bound_have_no_likely_value() -> None:
    found, bound = predictor(loading(4, 10)), rule('removes = "0.2 * step_count / step_count"')

    assert found.likely(WAITS, (1.1, 1.4)) == pytest.approx(1.1 * (1.4 / 1.1) ** positions()["gpu"].likely)
    assert found.likely(WAITS, (1.1, None)) is None
    assert found.likely(bound, found.predict(bound)) is None
    assert found.likely(WAITS, None) is None


def test_most_gains_lie_in_a_usual_range_unless_the_worst_case_gains_nothing() -> None:
    at = positions()["cpu"]

    assert usual((2.0, 4.0), "cpu") == pytest.approx((2 * 2**at.low, 4 * at.beyond))
    assert [usual(cases, "cpu") for cases in ((1.0, 4.0), (0.9, 4.0), (2.0, None), None)] == [None] * 4


def test_a_change_promises_its_usual_range_and_decides_by_its_worst_case() -> None:
    known = replace(diagnoses.DATA_WAIT, predicted_speedup=(1.5, 4.0), usual_speedup=(2.0, 4.0), likely_speedup=3.0)
    unknown = replace(known, usual_speedup=None)

    assert (expected_range(known), gain_of(known)) == ((2.0, 4.0), "about 3.0x (2.0-4.0x)")
    assert (expected_range(unknown), gain_of(unknown)) == ((1.5, 4.0), "about 3.0x (1.5-4.0x)")


def test_no_more_time_is_saved_than_in_the_best_case() -> None:
    beyond = replace(diagnoses.DATA_WAIT, predicted_speedup=(1.25, 2.0), usual_speedup=(1.5, 2.2))
    nothing_sure = replace(beyond, predicted_speedup=(1.0, 2.0), usual_speedup=None)

    assert saved_ms(beyond, 60e6) == "saves 20-30 ms per step"
    assert saved_ms(nothing_sure, 60e6) == ""


def test_a_bound_has_no_usual_range() -> None:
    found, bound = predictor(loading(4, 10)), rule('removes = "0.2 * step_count / step_count"')

    assert found.usual(WAITS, (1.1, 1.4)) == usual((1.1, 1.4), "gpu")
    assert found.usual(bound, found.predict(bound)) is None


def test_a_job_without_a_gpu_has_a_position_of_its_own() -> None:
    found = predictor(steps(lambda job: job.loader(ms=4), gpu=None))

    assert found.likely(WAITS, (1.0, 4.0)) == pytest.approx(4 ** positions()["cpu"].likely)


@pytest.mark.parametrize(("predicted", "value", "said"), [
    ((1.41, 1.96), 1.74, "about 1.7x (1.4-2.0x)"),
    ((1.1, 1.3), 1.2345, "about 1.2x (1.10-1.3x)"),
    ((1.42, 1.45), 1.44, "about 1.44x (1.42-1.45x)"),
    ((8.0, 30.0), 15.4, "about 15x (8.0-30x)"),
    ((0.88, 1.08), 0.97, "about 0.97x (0.88-1.08x): may slow it down by up to 1.14x"),
    ((0.996, 1.08), 1.04, "up to 1.08x"),
    ((1.2, 1.2), 1.2, "1.20x"),
    ((1.23, None), None, "at least 1.2x"),
    (None, None, ""),
])  # fmt: skip
def test_a_gain_in_words(predicted: Any, value: float | None, said: str) -> None:
    assert gain(predicted, value) == said


def told_in(form: str, diagnosis: Any) -> str:
    if form == "text":
        console = Console(file=io.StringIO(), width=200, force_terminal=True, color_system="standard")
        render(diagnosis, console)
        return console.file.getvalue()
    return markdown(diagnosis, About("1")) if form == "markdown" else page(diagnosis, About("1"))


@pytest.mark.parametrize("form", ["text", "markdown", "page"])
def test_every_form_of_the_report_says_that_a_change_may_slow_the_step_down_and_is_no_good_news(form: str) -> None:
    slow = replace(diagnoses.DATA_WAIT, predicted_speedup=(0.88, 1.08), likely_speedup=1.01)
    found = told_in(form, diagnoses.judged(diagnoses.data_bound(), findings=(slow,), plan=()))

    assert "about 1.01x (0.88-1.08x): may slow it down by up to 1.14x" in found
    assert 'class="gain"' not in found
    assert "\x1b[1;32mabout" not in found


GAINS = st.tuples(st.floats(0.3, 2), st.floats(1.0, 20)).map(lambda pair: (min(pair), max(pair)))


@given(st.lists(st.tuples(GAINS, st.sampled_from(["critical", "warning", "info"])), min_size=1, max_size=5))
def test_in_a_plan_what_may_slow_the_step_down_comes_after_every_sure_gain_and_is_never_critical(
    faults: list[tuple[tuple[float, float], Any]],
) -> None:
    rules = [rule('removes = "0"', f"rule-{at}") for at in range(len(faults))]
    gains = {each.id: gain for each, (gain, _) in zip(rules, faults, strict=True)}
    severities = [severity_of(answer, gain) for gain, answer in faults]
    stated: Any = SimpleNamespace(predict=lambda each, after: gains[each.id], together=lambda each: None)
    weights = {each.id: Weight(severity) for each, severity in zip(rules, severities, strict=True)}

    slows = [may_slow(step.speedup) for step in plan_of(stated, rules, weights)]

    assert slows == sorted(slows)
    assert not any(
        may_slow(gain) and severity == "critical" for (gain, _), severity in zip(faults, severities, strict=True)
    )
