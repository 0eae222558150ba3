"""Lines of the user's code and the operators of a job without a GPU, as each form of the report tells them."""

import io
from collections.abc import Callable

import diagnoses
import drawn
import pytest
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from diagnose.diagnosis import CodePlace, Diagnosis, UserCode
from diagnose.report.html import page
from diagnose.report.markdown import markdown
from diagnose.report.text import render
from diagnose.report.views.summary import About
from diagnose.report.views.user_code import placed, where_line

ABOUT = About("1.2.3", "diagnose analyze run/")
WHERE = "collate (collate.py:31) takes 62.0 %, main (main.py:31) 20.0 % of 214 samples of the training thread"
UNKNOWN = {"where_because": "12 of 12 samples show your code", "where_capture_next": "capture with diagnose run"}


def text(diagnosis: Diagnosis, width: int = 120, **extent: int) -> str:
    to = io.StringIO()
    render(diagnosis, Console(file=to, width=width), **extent)  # type: ignore[arg-type]
    return to.getvalue()


def with_finding(**changes: object) -> Diagnosis:
    """A data-bound job whose next change has these lines."""
    of = diagnoses.data_bound()
    first = replace(of.findings[0], **changes)
    return diagnoses.judged(of, findings=(first, *of.findings[1:]))


def located() -> Diagnosis:
    return with_finding(where=(drawn.code_line(), drawn.code_line("main", share=0.2)))


@pytest.mark.parametrize(
    "form",
    [lambda d: text(d, details=True), lambda d: page(d, ABOUT), lambda d: markdown(d, ABOUT)],
    ids=["details", "html", "md"],
)
def test_every_report_names_the_lines_of_the_next_change(form: Callable[[Diagnosis], str]) -> None:
    assert WHERE in " ".join(form(located()).split())
    assert "collate.py" not in form(diagnoses.data_bound())


def test_the_first_screen_names_the_line_that_takes_most() -> None:
    shown = " ".join(text(located()).split())

    assert "collate (collate.py:31) takes 62 % of 214 samples of the training thread." in shown
    assert "collate" not in text(diagnoses.data_bound())


def test_code_outside_of_functions_has_its_line_alone() -> None:
    assert placed("<module>", "train.py", 7) == "train.py:7"
    assert where_line(()) == ""


def test_a_line_says_in_which_function_most_of_it_is() -> None:
    words = CodePlace(file="data.py", line=5, function="words")

    told = where_line((drawn.code_line(most_in=words),))

    assert told.endswith("the training thread; most of collate in words (data.py:5)")


def test_why_no_line_is_known_is_for_the_details_alone() -> None:
    told = "unknown: 12 of 12 samples show your code; capture with diagnose run"

    assert told in text(with_finding(**UNKNOWN), details=True)
    assert told not in text(with_finding(**UNKNOWN))


def python_lines(diagnosis: Diagnosis, width: int = 120, **extent: int) -> list[str]:
    """The section of the terminal's report, none where it is left out."""
    lines = text(diagnosis, width, **extent).splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith("python ")), None)
    return [] if start is None else lines[start : lines.index("", start)]


def test_the_section_lists_functions_by_share() -> None:
    listed = python_lines(replace(diagnoses.data_bound(), user_code=drawn.user_code()), details=True)

    assert " ".join(listed[0].split()) == (
        "python where it is, in % of 214 samples of the training thread; sampling took 0.2 % of the sampled steps"
    )
    assert listed[2].split() == ["collate", "(src/collate.py:31)", "62.0", "%", "70.0", "%", "loading"]


def test_the_section_is_a_part_of_the_details() -> None:
    of_host = replace(diagnoses.data_bound(), user_code=drawn.user_code())

    assert python_lines(of_host) == []
    assert python_lines(of_host, details=True)


def test_an_unknown_section_says_why() -> None:
    unknown = UserCode(because="the sampling was switched off", capture_next="capture again")

    listed = python_lines(replace(diagnoses.data_bound(), user_code=unknown), details=True)

    assert listed == ["python        where it is, is unknown: the sampling was switched off; capture again"]
    assert "the sampling was switched off" in page(replace(diagnoses.data_bound(), user_code=unknown), ABOUT)
    assert "the sampling was switched off" in markdown(replace(diagnoses.data_bound(), user_code=unknown), ABOUT)


@pytest.mark.parametrize("width", [60, 80])
def test_no_line_is_wider_than_the_console_and_no_name_drives_it(width: int) -> None:
    code, rows = drawn.user_code(drawn.HOSTILE), (drawn.operator(drawn.HOSTILE, 1_000_000, shapes=drawn.HOSTILE),)
    where = tuple(drawn.code_line(drawn.HOSTILE, of=drawn.HOSTILE) for _ in range(3))
    job = replace(with_finding(where=where), user_code=code, host_operators=rows, ranks=())

    lines = text(job, width, details=True, kernels=5).splitlines()

    assert max(cell_len(line) for line in lines) <= width
    assert not any(mark in line for line in lines for mark in ("\x1b", "\u202e", "\u2028"))


def test_a_long_path_leaves_the_line_number_readable() -> None:
    code = drawn.user_code()
    long = replace(code.functions[0], file=f"/home/me/{'deep/' * 20}data.py")

    listed = python_lines(replace(diagnoses.data_bound(), user_code=replace(code, functions=(long,))), 60, details=True)

    assert any(line.startswith("  collate (data.py:31)") for line in listed)


def of_host() -> Diagnosis:
    rows = (drawn.operator("aten::addmm", 12_700_000), drawn.operator("", 1_000_000, names=7, shapes=""))
    return replace(diagnoses.undecided(), host_operators=rows)


def test_a_job_without_a_gpu_lists_its_operators() -> None:
    lines = text(of_host(), kernels=3).splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("operators "))

    assert "no GPU kernels; the longest on a typical rank" in lines[start]
    figures, what = ["aten::addmm", "12", "12.7", "ms", "7.3", "%"], ["matrix", "products", "512x512,", "512x512"]
    assert lines[start + 2].split() == figures + what
    assert lines[start + 3].split() == ["+7", "names", "with", "1.0", "ms"]
    assert not any(line.startswith("kernels ") for line in lines)


def test_the_page_sorts_functions_and_operators() -> None:
    html = page(replace(of_host(), user_code=drawn.user_code()), ABOUT)

    assert html.count('class="kernels sortable"') == 1
    assert html.count('class="kernels functions sortable"') == 1
    assert "<code>collate (src/collate.py:31)</code>" in html
    assert "38.0 % is in none of these." in html
    assert "7 other names" in html
