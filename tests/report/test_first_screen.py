"""The first screen of every sample and shared trace: the answer within sixteen lines, in words that readers know."""

import os
import re
from functools import cache
from pathlib import Path

import diagnoses
import pytest
from msgspec.structs import replace
from read_once import diagnosis_of
from report.avoided import AVOIDED_IN_FIRST_LINES
from report.printed import piped, printed
from rich.cells import cell_len

from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.promise import ALIKE
from diagnose.errors import UserError
from diagnose.report.text import render_brief, render_first_screen
from diagnose.report.views.brief import brief
from diagnose.report.views.first_screen import first_screen, next_words

ROOT = Path(__file__).parents[2]
SAMPLES = [*(ROOT / "sample_traces").glob("*.json.gz"), *(ROOT / "sample_traces").glob("*-*/")]
SHARED = ("DIAGNOSE_REAL_TRACES", "DIAGNOSE_MORE_TRACES")
LINES, COLUMNS, WHOLE_REPORT = 16, 80, 48
UNITS = re.compile(r"[\d.] (ns|us|ms|s)\b")


def traces() -> list[Path]:
    """Every sample, and every shared trace of this machine: a file alone, the files of a folder of ranks together."""
    shared = [Path(os.environ[name]) for name in SHARED if os.environ.get(name)]
    inside = [path for folder in shared for path in sorted(folder.iterdir()) if path.suffix not in (".md", ".json")]
    return [path for path in (*SAMPLES, *inside) if path.name not in ("damaged", "dumps")]


def diagnosed(trace: Path) -> Diagnosis:
    try:
        return diagnosis_of(trace)
    except UserError:  # two runs in one folder
        return diagnosis_of(sorted(trace.iterdir())[0])


@cache
def screen(trace: Path) -> str:
    """The report down to the line that says where the rest is."""
    above, _, _ = printed(diagnosed(trace)).partition("--details\n")
    return f"{above}--details\n"


@pytest.fixture(params=traces(), ids=lambda path: path.name)
def trace(request: pytest.FixtureRequest) -> Path:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", SHARED)
def test_shared_traces_are_looked_at(name: str) -> None:
    if not os.environ.get(name):
        pytest.skip(f"{name} is not set: shared traces are not on this machine")

    assert any(Path(os.environ[name]) in path.parents for path in traces())


def test_the_answer_fits_the_screen_with_the_change_before_the_table(trace: Path) -> None:
    lines, diagnosis = screen(trace).splitlines(), diagnosed(trace)
    labels = [label for line in lines if (label := line[:10].strip())]

    assert len(lines) <= LINES
    assert max(map(cell_len, lines)) <= COLUMNS
    assert labels == [name for name in ORDER if name in labels]
    assert lines[0].startswith(("verdict   none: ", "verdict   undecided: ", f"verdict   {diagnosis.verdict.class_}"))
    assert ("gain" in labels) == (diagnosis.next.predicted_speedup is not None)
    assert not any(line.endswith("…") for line in lines)


ORDER = ["verdict", "why", "next", "gain", "try", "applied", "speed", "MFU", "step", "scope"]


def test_words_that_say_nothing_are_avoided(trace: Path) -> None:
    shown = " ".join(screen(trace).split())

    assert not (found := AVOIDED_IN_FIRST_LINES.search(shown)), found
    assert len(re.findall(r"\bunknown\b(?!-)", shown)) <= 1


def test_the_table_has_one_unit_and_is_in_order(trace: Path) -> None:
    classes = first_screen(diagnosed(trace)).classes
    shares = [row.share for row in classes]

    assert len({UNITS.search(row.time)[1] for row in classes}) <= 1  # type: ignore[index]
    assert shares == sorted(shares, reverse=True)
    assert all(share >= 0.01 for share in shares)
    assert sum(shares) <= 1 + ALIKE


def test_the_whole_report_of_one_rank_is_two_screens(trace: Path) -> None:
    diagnosis = diagnosed(trace)
    lines = printed(diagnosis).splitlines()

    assert max(map(cell_len, lines)) <= COLUMNS
    assert len(lines) <= WHOLE_REPORT or len(diagnosis.ranks) > 1
    assert "FILE.json" not in printed(diagnosis, details=True)


@pytest.mark.parametrize("width", [40, 60])
def test_a_narrow_terminal_shows_the_same_words(trace: Path, width: int) -> None:
    shown = piped(lambda console: render_first_screen(diagnosed(trace), console), width)

    assert max(map(cell_len, shown.splitlines())) <= width
    assert first_screen(diagnosed(trace)).lines[0].text in " ".join(shown.split())


def test_the_brief_answer_is_five_lines(trace: Path) -> None:
    shown = piped(lambda console: render_brief(diagnosed(trace), console), COLUMNS).splitlines()

    assert len(shown) <= 5
    assert [line.split()[0] for line in shown[:1]] == ["verdict"]


def test_a_job_on_a_cpu_gets_no_questions_about_gpus() -> None:
    report = printed(diagnosed(ROOT / "sample_traces" / "cpu-slow-loader.json.gz"))

    assert "CPU only: GPU questions were not asked" in report
    assert "MFU" not in report
    assert "CUDA" not in report


def test_a_change_that_may_slow_the_step_down_says_by_how_much() -> None:
    slow = replace(diagnoses.DATA_WAIT, predicted_speedup=(0.88, 1.08), likely_speedup=0.97)
    answer = diagnoses.judged(diagnoses.data_bound(), findings=(slow,), plan=())
    gain = next(line for line in first_screen(answer).lines if line.label == "gain")

    assert gain.text.startswith("about 0.97x (0.88-1.08x): may slow it down by up to 1.14x")
    assert gain.warns


def test_a_wide_range_says_why() -> None:
    wide = replace(diagnoses.DATA_WAIT, assumes="the workers run at 70 to 100 % of their speed; the rest stays")
    answer = diagnoses.judged(diagnoses.data_bound(), findings=(wide,))
    gain = next(line for line in first_screen(answer).lines if line.label == "gain")

    assert gain.text == "up to 1.7x; wide, because the workers run at 70 to 100 % of their speed"


def test_the_last_line_of_a_run_is_the_class_and_the_change_with_its_likely_gain() -> None:
    assert brief(diagnosed(ROOT / "sample_traces" / "cpu-slow-loader.json.gz")) == (
        "data-bound; set num_workers=4, persistent_workers=True of the DataLoader (about 1.7x)"
    )


def test_what_comes_before_the_setting_is_a_comment_before_it() -> None:
    diagnosis = diagnosis_of(ROOT / "sample_traces" / "h200-llama-eager.json.gz")
    chosen = diagnosis.finding(diagnosis.next.rule)
    assert chosen is not None
    first = replace(chosen, action="move the mask away, then compile")
    others = tuple(first if each is chosen else each for each in diagnosis.findings)

    alone = next_words(diagnosis, chosen).splitlines()
    assert alone[0].startswith("F.scaled_dot_product_attention(")
    assert next_words(replace(diagnosis, findings=others), first).splitlines() == [
        "# first move the mask away", *alone,
    ]  # fmt: skip
