"""What may slow the step down is never critical, and comes after every sure gain; noise hides no count."""

from dataclasses import dataclass
from pathlib import Path

import diagnoses
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from read_once import diagnosis_of
from whatif.predicted import rule

from diagnose.cli.rule_files import all_rules
from diagnose.diagnosis import Finding, Severity, Speedup
from diagnose.judge.findings import in_order
from diagnose.predict.plan import Weight, hiding, may_slow, severity_of

FOLDER = Path(__file__).parents[1] / "sample_traces"
SAMPLES = sorted([*FOLDER.glob("*.json.gz"), *{path.parent for path in FOLDER.glob("*/rank*.json.gz")}])
GAINS = st.tuples(st.floats(0.3, 2), st.floats(1, 20)).map(lambda pair: (min(pair), max(pair)))
SEVERITIES = st.sampled_from(("critical", "warning", "info"))


@dataclass
class Fault:
    severity: Severity
    gain: Speedup


@given(st.lists(st.builds(Fault, SEVERITIES, GAINS), max_size=6))
def test_whatever_the_gains_are(faults: list[Fault]) -> None:
    findings, weights = [], {}
    for at, fault in enumerate(faults):
        severity = severity_of(fault.severity, fault.gain)
        found = replace(diagnoses.SLOW_NORM, rule=f"rule-{at}", severity=severity, predicted_speedup=fault.gain)
        findings.append(found)
        weights[found.rule] = Weight(severity, bounds_step=at % 2 == 0)

    holds(in_order(findings, weights))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_in_every_sample(sample: Path) -> None:
    holds(diagnosis_of(sample).findings)


def holds(findings: tuple[Finding, ...]) -> None:
    slow = [may_slow(finding.predicted_speedup) for finding in findings]
    sure = [bool(finding.predicted_speedup and finding.predicted_speedup[0] > 1) for finding in findings]

    assert not any(finding.severity == "critical" for finding, slows in zip(findings, slow, strict=True) if slows)
    assert True not in slow or not any(sure[slow.index(True) :])


def test_only_what_is_timed_is_hidden_by_noise() -> None:
    timed, counted = rule('removes = "0.1"', "timed"), rule('removes = "0.1"', "counted", 'evidence = "count"')

    assert (hiding(timed, 0.2), hiding(counted, 0.2)) == (0.2, 0)
    assert Weight(noise_share=hiding(timed, 0.2)).is_noise((1.0, 1.1))
    assert not Weight(noise_share=hiding(counted, 0.2)).is_noise((1.0, 1.1))


def test_a_counted_fault_comes_before_what_is_below_the_noise() -> None:
    noise = replace(diagnoses.SLOW_NORM, rule="noise", severity="warning", predicted_speedup=(1.1, 1.2))
    counted = replace(diagnoses.SLOW_NORM, rule="counted", severity="info", predicted_speedup=(1.0, 1.03))
    weights = {"noise": Weight("warning", noise_share=0.4), "counted": Weight("info")}

    assert [each.rule for each in in_order((noise, counted), weights)] == ["counted", "noise"]


@pytest.mark.parametrize("name", ["recompilations", "padded-batches", "reduced-micro-steps", "evaluation-cadence"])
def test_what_is_counted_says_so(name: str) -> None:
    assert next(each for each in all_rules(()) if each.id == name).evidence == "count"
