"""The order of findings, and what follows from it for the next change."""

from types import SimpleNamespace
from typing import Any

import diagnoses
import msgspec
import pytest
from whatif.predicted import rule

from diagnose.diagnosis import Finding, PlanStep, Severity, Speedup
from diagnose.facts import Fact
from diagnose.judge.findings import in_order, weights_of
from diagnose.predict.plan import Weight


def finding(rule: str, severity: Severity, gain: Speedup | None, class_: str = "host") -> Finding:
    return msgspec.structs.replace(
        diagnoses.SLOW_NORM, rule=rule, severity=severity, predicted_speedup=gain, class_=class_
    )


UNKNOWN_GAIN = finding("unknown-gain", "warning", None)
SMALL_INFO = finding("small-info", "info", (1.02, 1.5))
LARGE_INFO = finding("large-info", "info", (1.05, 1.06))
SMALL_WARNING = finding("small-warning", "warning", (1.02, 1.1))
LARGE_WARNING = finding("large-warning", "warning", (1.3, None))
NOTHING_ALONE = finding("nothing-alone", "critical", (1.0, 1.0))
NOTE = finding("note", "warning", None, "validity")
UNSAFE = finding("unsafe", "critical", None, "validity")


def ordered(*findings: Finding) -> tuple[Finding, ...]:
    """In order, where none of them is of what bounds the step."""
    return in_order(findings, {each.rule: Weight(each.severity) for each in findings})


def test_findings_go_by_what_they_promise_and_an_unknown_gain_stands_before_a_small_one() -> None:
    mixed = [NOTE, UNKNOWN_GAIN, SMALL_INFO, SMALL_WARNING, LARGE_INFO, UNSAFE, LARGE_WARNING, NOTHING_ALONE]

    assert ordered(*mixed) == (
        UNSAFE, LARGE_WARNING, LARGE_INFO, UNKNOWN_GAIN, SMALL_INFO, SMALL_WARNING, NOTHING_ALONE, NOTE,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("planned", "rule"), [(SMALL_INFO, "unknown-gain"), (LARGE_INFO, "large-info"), (SMALL_WARNING, "small-warning")]
)
def test_a_warning_without_a_gain_goes_before_an_info_that_promises_little(planned: Finding, rule: str) -> None:
    step = PlanStep(rule=planned.rule, patch=None, predicted_speedup=planned.predicted_speedup)
    found = diagnoses.diagnosis(findings=ordered(planned, UNKNOWN_GAIN), plan=(step,))

    assert found.next.rule == rule


def test_what_is_gentler_than_a_change_of_numerics_takes_no_more_effort_or_is_severe() -> None:
    stated = {
        ("option", 'numerics = true\neffort = "code"'): "info",
        ("setting", ""): "info",
        ("other-option", "numerics = true"): "warning",
        ("moving", 'effort = "cluster"'): "info",
        ("straggling", 'effort = "cluster"'): "warning",
        ("quiet", ""): "quiet",
    }
    judged: Any = [
        (rule('removes = "0"', name, keys), SimpleNamespace(answer=answer, fired=answer != "quiet"))
        for (name, keys), answer in stated.items()
    ]

    nothing_predicted: Any = SimpleNamespace(predict=lambda rule: None)
    steady: Any = {"mean_step_noise_share": Fact("mean_step_noise_share", 0.0, "share")}
    weights = weights_of(judged, "compute-bound", steady, nothing_predicted)

    assert weights["option"].gentler == {"setting", "straggling"}
    assert not any(weight.gentler for name, weight in weights.items() if name != "option")


def test_an_option_that_alters_numerics_stands_after_gentler_findings_that_pay() -> None:
    option, gentle, unsure = finding("option", "info", (1.2, 1.5)), SMALL_INFO, finding("unsure", "info", (1.0, 1.1))
    weights = {each.rule: Weight(each.severity) for each in (gentle, unsure)}
    weights["option"] = Weight("info", gentler=frozenset(weights))

    assert in_order([unsure, option, gentle], weights) == (gentle, option, unsure)
