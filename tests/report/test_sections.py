"""Every section of the one list is shown by text, HTML and Markdown, or left out for a stated reason."""

import importlib
import io
from collections.abc import Mapping

import counted_memory
import diagnoses
import drawn
import pytest
from drawn import MS
from msgspec.structs import fields, replace
from rich.console import Console

from diagnose.diagnosis import Applied, Diagnosis, Goodput, MemoryOverTime, SlowStep, Start, StartAdvice, StepTimes
from diagnose.judge.cost import cost_of
from diagnose.metrics.settings import Settings
from diagnose.report import markdown
from diagnose.report.markdown import document
from diagnose.report.markdown.draft import Draft
from diagnose.report.markdown.github import Writer
from diagnose.report.text import report as text
from diagnose.report.text.page import Extent, Page
from diagnose.report.views.sections import IN_NO_SECTION, SECTIONS, LeftOut
from diagnose.report.views.summary import About

html = importlib.import_module("diagnose.report.html.page")
ABOUT = About("1.2.3", "diagnose analyze run/")
RENDERERS: Mapping[str, Mapping[str, object]] = {
    "text": text.SECTIONS,
    "html": html.SECTIONS,
    "markdown": document.SECTIONS,
}
CASES = [(form, name) for form, sections in RENDERERS.items() for name in sections]


def everything() -> Diagnosis:
    """A diagnosis in which no section is empty; a new section needs its part here."""
    applied = Applied(patches=(diagnoses.DATA_WAIT.patch,), because="the run before has no steps")  # type: ignore[arg-type]
    slow = SlowStep(step=1007, rank=1, recorded=True, ns=250_000_000, factor=1.4, cause="data-wait", cause_ns=7_000_000)
    more = {"host_operators": (drawn.operator("aten::addmm", 9 * MS),), "user_code": drawn.user_code()}
    more |= {"ranges": (drawn.range_row(),)}
    more |= {"windows": (drawn.window("first", 9 * MS), drawn.window("last", 7 * MS, is_reported=True))}
    more |= {"capacity": counted_memory.CAPACITY}
    longer = StartAdvice(what="imports", do="keep them on a local disk", saves_s=3.0)
    started = Start(rank=0, of_ranks=1, time_s=5.0, parts={"imports": 5.0}, compiling_s=0.0, advice=(longer,))
    more |= {"goodput": replace(Goodput.of(50.0, {"productive": 45.0, "starting": 5.0}), start=started)}
    cost = cost_of(diagnoses.diagnosis(), Settings(gpu_hour_price=2.0))
    more["step_times"] = StepTimes(
        rank=0, first_step=(1, 2), last_step=(1, 2), shortest_ns=(10**6, 10**7), longest_ns=(10**6, 10**7),
        profiled=(), median_ns=10**6,
    )  # fmt: skip
    more["memory_over_time"] = MemoryOverTime(
        rank=0, device=0, piece_ns=10**6, least_bytes=(1, 2), most_bytes=(2, 3), reserved_bytes=(4, 4), peak_bytes=3,
        peak_ns=10**6, steps=(1,), step_ns=(0,),
    )  # fmt: skip
    return diagnoses.judged(drawn.joined(), applied=applied, slow_steps=(slow,), cost=cost, **more)


def in_text(name: str, diagnosis: Diagnosis) -> tuple[str, str]:
    """What the section alone prints, and the whole report."""

    def printed(show: object) -> str:
        console = Console(file=io.StringIO(), width=120, color_system=None)
        show(console)  # type: ignore[operator]
        return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]

    extent = Extent(details=True, kernels=3)
    section = text.SECTIONS[name]
    return (
        printed(lambda console: section(Page(console, text.REPORT_LABEL), diagnosis, extent)),  # type: ignore[operator]
        printed(lambda console: text.render(diagnosis, console, details=extent.details, kernels=extent.kernels)),
    )


def in_html(name: str, diagnosis: Diagnosis) -> tuple[str, str]:
    template = html.environment().get_template(f"{name}.html")
    return template.render(html.context_of(diagnosis, ABOUT)), html.page(diagnosis, ABOUT)


def in_markdown(name: str, diagnosis: Diagnosis) -> tuple[str, str]:
    writer, most = Writer(rows=14, prose=400, name=90), 2 * markdown.MOST_TOKENS  # so that nothing is cut
    written = document.SECTIONS[name].write(Draft(diagnosis, ABOUT, writer))  # type: ignore[union-attr]
    return writer.items(written) if isinstance(written, tuple) else written, markdown.markdown(diagnosis, ABOUT, most)


@pytest.mark.parametrize("form", RENDERERS)
def test_each_form_has_an_entry_for_each_section(form: str) -> None:
    assert set(RENDERERS[form]) == set(SECTIONS)


@pytest.mark.parametrize(("form", "name"), CASES)
def test_a_section_stands_in_the_whole_report_or_says_why_it_does_not(form: str, name: str) -> None:
    section = RENDERERS[form][name]
    if isinstance(section, LeftOut):
        assert section.because
        return
    alone, whole = {"text": in_text, "html": in_html, "markdown": in_markdown}[form](name, everything())

    assert alone.strip()
    assert alone.strip() in whole


def test_each_field_of_the_diagnosis_is_of_a_section() -> None:
    shown = {field for fields_shown in SECTIONS.values() for field in fields_shown}

    assert shown.isdisjoint(IN_NO_SECTION)
    assert shown | set(IN_NO_SECTION) == {field.name for field in fields(Diagnosis)}
