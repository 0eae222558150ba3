"""What a gain counts beside its own evidence is said with it, in every form of the report."""

import diagnoses
import pytest
from msgspec.structs import replace

from diagnose.diagnosis import Diagnosis
from diagnose.report.html import About, page
from diagnose.report.markdown import markdown
from diagnose.report.views.changes import plan_view

SAID = "1.05-1.9x; wide, because other work hides a part of it today"


def of_gain(hidden_share: float) -> Diagnosis:
    """A next change whose best case saves a third of the step, so much of it hidden."""
    finding = replace(diagnoses.DATA_WAIT, predicted_speedup=(1.05, 1.9), booked_share=0.047, hidden_share=hidden_share)
    return diagnoses.judged(diagnoses.data_bound(), findings=(finding,))


@pytest.mark.parametrize("form", [markdown, page])
def test_work_beside_other_work_is_named_with_the_gain(form: object) -> None:
    assert SAID in form(of_gain(0.286), About("1"))  # type: ignore[operator]


def test_what_the_evidence_shows_needs_no_word() -> None:
    shown = plan_view(of_gain(0.0)).next

    assert shown is not None
    assert shown.headline.gain == "1.05-1.9x"


def test_idle_time_that_the_ledger_books_before_the_work_is_named() -> None:
    """Evidence of 1.9 %, and 41 % saved: the rest is idle time before these kernels are launched."""
    fused = replace(diagnoses.SLOW_NORM, severity="warning", predicted_speedup=(1.0, 1.7), booked_share=0.42)
    shown = plan_view(diagnoses.judged(diagnoses.data_bound(), findings=(fused,), plan=())).next

    assert shown is not None
    assert shown.headline.gain == ("up to 1.7x; wide, because the gaps before this work may stay")
