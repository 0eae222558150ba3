"""When no change buys anything, the report says so, and how near the hardware the job is."""

import io
import re
from pathlib import Path

import diagnoses
import msgspec
import pytest
from remedies import single_gpu_jobs as jobs
from remedies.single_gpu_jobs import analysed, job, product
from rich.console import Console

from diagnose.diagnosis import Diagnosis, Finding, NotJudged
from diagnose.judge.next_change import recommended
from diagnose.report.text import render, render_brief

SMALL_GAIN = msgspec.structs.replace(diagnoses.SLOW_NORM, predicted_speedup=(1.019, 1.049))
LARGE_GAIN = msgspec.structs.replace(diagnoses.SLOW_NORM, predicted_speedup=(1.0, 1.05))
SURE_GAIN = msgspec.structs.replace(diagnoses.SLOW_NORM, predicted_speedup=(1.02, 1.03))
NO_GAIN_KNOWN = msgspec.structs.replace(diagnoses.SLOW_NORM, predicted_speedup=None)
UNSAFE = msgspec.structs.replace(diagnoses.DAMAGED, severity="critical")


def healthy(*findings: Finding) -> Diagnosis:
    return diagnoses.diagnosis(findings=findings)


def printed(diagnosis: Diagnosis) -> str:
    out = io.StringIO()
    render(diagnosis, Console(file=out, width=200))
    return re.sub(r" *\n {10,14}(?=\S)", " ", out.getvalue())


@pytest.mark.parametrize("findings", [(), (SMALL_GAIN,), (NO_GAIN_KNOWN,), (SMALL_GAIN, diagnoses.DAMAGED)])
def test_nothing_pays_where_each_change_buys_less_than_2_percent(findings: tuple[Finding, ...]) -> None:
    answer = healthy(*findings)

    assert answer.next.kind == "nothing"
    assert answer.next.says.startswith("nothing worth doing: ")
    assert "next      nothing worth doing" in printed(answer)


@pytest.mark.parametrize(
    ("findings", "kind", "rule"),
    [
        ((LARGE_GAIN,), "change", "unfused-norm"),
        ((SMALL_GAIN, LARGE_GAIN), "change", "unfused-norm"),
        ((SURE_GAIN,), "change", "unfused-norm"),
        ((diagnoses.NO_MEMORY,), "change", "near-out-of-memory"),
        ((UNSAFE, LARGE_GAIN), "capture", "damaged-trace"),
    ],
)
def test_a_gain_a_warning_without_one_and_a_doubt_come_first(
    findings: tuple[Finding, ...], kind: str, rule: str
) -> None:
    answer = healthy(*findings)

    assert (answer.next.kind, answer.next.rule) == (kind, rule)
    assert f"next      {answer.next.action or answer.next.do}" in printed(answer)


def test_an_invalid_replay_or_an_undecided_step_proves_nothing() -> None:
    unsure = msgspec.structs.replace(diagnoses.diagnosis().replay, valid=False, because="it is 9 % off")

    for answer in (diagnoses.judged(healthy(), replay=unsure), diagnoses.undecided()):
        assert answer.next.says.startswith("nothing to change: no known fault was found")


def test_a_doubt_about_the_capture_precedes_what_informs_and_promises_nothing() -> None:
    """Where the replay is of no use, no gain is known; a warning without one still comes first."""
    unsure = msgspec.structs.replace(diagnoses.diagnosis().replay, valid=False, because="it is 9 % off")
    small, severe = NO_GAIN_KNOWN, msgspec.structs.replace(NO_GAIN_KNOWN, severity="warning")

    found = [diagnoses.judged(healthy(first, diagnoses.DAMAGED), replay=unsure).next for first in (small, severe)]

    assert [(each.kind, each.rule) for each in found] == [("capture", "damaged-trace"), ("change", "unfused-norm")]
    assert found[0].because == (
        "the capture is in doubt, and the other findings are for information and promise nothing"
    )


def test_a_finding_about_the_capture_alone_is_not_passed_over() -> None:
    assert healthy(diagnoses.DAMAGED).next.says.startswith("nothing worth doing: only the recording can be improved")


def test_it_is_said_how_near_the_fastest_products_the_job_is(tmp_path: Path) -> None:
    """8.8 TFLOP in 35 ms on an A100: 251 of the 271.2 TFLOP/s that products reach there."""
    large = jobs.op("aten::mm", [jobs.LARGE] * 2, jobs.GEMM, 35_000)
    answer = analysed(tmp_path, job(large, product(15_000), gpu=jobs.A100))
    near = analysed(tmp_path / "near", job(large, gpu=jobs.A100))

    assert answer.next.kind == "nothing"
    assert "its FLOPs need 66 % of the step at the fastest products measured on such a GPU" in printed(answer)
    says = next(f.says for f in near.findings if f.rule == "near-hardware-peak")
    assert "92.7 % of the fastest one measured on such a GPU" in says


def test_a_job_near_the_peak_of_bf16_still_has_fp8(tmp_path: Path) -> None:
    """The same products at 733 of the 794.5 TFLOP/s that an H100 reaches."""
    answer = analysed(tmp_path, job(jobs.op("aten::mm", [jobs.LARGE] * 2, jobs.GEMM, 12_000)))
    do = next(f.do for f in answer.findings if f.rule == "near-hardware-peak")

    assert (answer.next.kind, answer.next.rule) == ("change", "products-limited-by-bf16")
    assert "Fewer bits may" in do


def test_the_brief_report_says_it_too() -> None:
    out = io.StringIO()
    render_brief(healthy(), Console(file=out, width=200))

    assert "nothing worth doing: no known fault was found" in out.getvalue()


@pytest.mark.parametrize(
    ("judged", "says"), [(1, "nothing worth doing: "), (9, "nothing found in what this capture shows")]
)
def test_where_a_third_of_the_rules_could_not_be_judged_nothing_found_says_little(judged: int, says: str) -> None:
    open_ = tuple(NotJudged.lacking(f"rule-{at}", "no GPU") for at in range(judged))
    asked = msgspec.structs.replace(
        healthy(), not_judged=tuple(msgspec.structs.replace(each, title="x") for each in open_)
    )

    assert recommended(asked, 24).says.startswith(says)
