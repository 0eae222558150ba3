"""A gain smaller than the steps lie apart is said to be that in every report, and is never the next change."""

import io

import diagnoses
import pytest
from msgspec.structs import replace
from rich.console import Console

from diagnose.diagnosis import Diagnosis, FactReport, Finding
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.text import render, render_brief

NOISE = FactReport(name="mean_step_noise_share", value=0.083, unit="share", of="the mean step")


def noisy(*more: Finding) -> Diagnosis:
    """A plan of one change that buys less than the 8.3 % that steps lie apart, and findings beside it."""
    of = diagnoses.data_bound()
    small = replace(diagnoses.DATA_WAIT, predicted_speedup=(1.01, 1.05))
    step = replace(of.plan[0], rule=small.rule, patch=small.patch, predicted_speedup=(1.01, 1.05), below_noise=True)
    return diagnoses.judged(of, findings=(small, *more), plan=(step,), facts=(NOISE,))


def text(diagnosis: Diagnosis, brief: bool = False) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    (render_brief if brief else render)(diagnosis, console)
    return " ".join(console.file.getvalue().split())  # type: ignore[attr-defined]


@pytest.mark.parametrize("report", ["text", "markdown", "html"])
def test_every_report_says_so(report: str) -> None:
    found = noisy()
    shown = {
        "text": lambda: text(found),
        "markdown": lambda: markdown(found, About("1")),
        "html": lambda: page(found, About("1")),
    }[report]()

    assert "no gain is larger than the noise of these steps" in shown
    assert "1.01-1.05x; smaller than the noise" in shown
    assert "these steps tell the mean step to 8.3 %; record more steps to see smaller gains" in shown
    assert "dataloader_num_workers=8" in shown


def test_the_next_change_is_none_of_them() -> None:
    assert noisy().next.kind == "nothing"
    assert noisy().next.worth_doing == ()
    assert "next no gain is larger than the noise" in text(noisy(), brief=True)


def test_a_severe_finding_of_unknown_gain_comes_before_them() -> None:
    severe = noisy(diagnoses.NO_MEMORY).next

    assert (severe.kind, severe.rule, severe.says) == ("change", "near-out-of-memory", diagnoses.NO_MEMORY.says)
    assert noisy(replace(diagnoses.NO_MEMORY, severity="info")).next.kind == "nothing"


def test_a_plan_above_the_noise_says_nothing_of_it() -> None:
    steady = diagnoses.data_bound()

    assert "noise" not in text(replace(steady, facts=(NOISE,)))
    assert steady.next.worth_doing == ("data-wait", "low-memory-use")


def test_a_counted_fault_that_a_short_run_cannot_measure_is_the_next_change_and_says_so() -> None:
    of = noisy()
    counted = replace(of.findings[0], rests_on="count")
    step = replace(of.plan[0], below_noise=False, unmeasurable=True)
    found = diagnoses.judged(of, findings=(counted,), plan=(step,))

    assert (found.next.kind, found.next.rule) == ("change", counted.rule)
    assert "1.01-1.05x; too little for a short run to measure" in page(found, About("1"))


def test_a_counted_fault_of_unknown_gain_comes_before_them() -> None:
    counted = replace(diagnoses.NO_MEMORY, severity="info", rests_on="count")

    assert (noisy(counted).next.kind, noisy(counted).next.rule) == ("change", counted.rule)
