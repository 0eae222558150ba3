"""Exposed communication is exposed transfer and exposed waiting: one term for each, and the same sums, everywhere."""

import io
from functools import cache
from pathlib import Path

import pytest
from rich.console import Console

from diagnose.analysis import analyze
from diagnose.attribution.causes import WAITING
from diagnose.diagnosis import Diagnosis
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.text import render

SAMPLES = Path(__file__).parents[2] / "sample_traces"
JOB, ALONE = "gloo-healthy", "synthetic-communication-bound.json.gz"


@cache
def diagnosed(name: str) -> Diagnosis:
    return analyze(SAMPLES / name)


def fact(found: Diagnosis, name: str) -> float | None:
    value = next(fact.value for fact in found.facts if fact.name == name)
    return None if value is None else float(value)


def in_text(found: Diagnosis) -> str:
    console = Console(file=io.StringIO(), width=200, color_system=None)
    render(found, console, details=True)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return " ".join(text.split())


def test_the_parts_of_the_facts_the_ledger_and_the_collectives_add_up_to_the_same() -> None:
    found = diagnosed(JOB)
    exposed = fact(found, "exposed_communication_share")
    transfer, waiting = fact(found, "transfer_share"), fact(found, "waiting_share")
    ledger = {entry.cause: entry.share for entry in found.ledger}
    assert found.postmortem is not None
    traffic = found.postmortem.traffic

    assert transfer is not None
    assert waiting is not None
    assert exposed == pytest.approx(transfer + waiting)
    assert ledger["exposed-communication"] == pytest.approx(transfer, abs=0.002)
    assert sum(share for cause, share in ledger.items() if cause in WAITING) == pytest.approx(waiting, abs=0.002)
    assert sum(row.exposed_share for row in traffic) == pytest.approx(exposed, abs=0.002)
    assert sum(row.exposed_waiting_share or 0 for row in traffic) == pytest.approx(waiting, abs=0.002)


@pytest.mark.parametrize("report", ["text", "markdown", "html"])
def test_a_job_divides_it_and_names_the_parts(report: str) -> None:
    found = diagnosed(JOB)
    shown = {"text": in_text, "markdown": lambda d: markdown(d, About("1")), "html": lambda d: page(d, About("1"))}[
        report
    ](found)

    assert "exposed transfer" in shown
    assert "15.5 %" in shown
    assert "(transfer 9.2 %, waiting 6.3 %)" in shown
    assert "exposed transfer 10.8 %, exposed waiting 6.4 %" in shown
    assert "Capture all ranks first" not in shown


def test_one_rank_of_several_does_not_divide_it() -> None:
    found = diagnosed(ALONE)
    shown = in_text(found)

    assert "communication: exposed communication" in shown
    assert "exposed transfer unknown, exposed waiting unknown" in shown
    assert "The step communicates while nothing else runs: 20.2 ms of each 52.3 ms step (39 %)." in shown
    assert "Capture all ranks first" in shown
