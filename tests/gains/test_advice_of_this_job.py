"""The next change is joined with the class of the step, and what would not help rests on a fact of the job."""

import io
import os
import re
from collections.abc import Iterator
from pathlib import Path

import diagnoses
import pytest
from msgspec.structs import replace
from read_once import diagnosis_of
from rich.console import Console

from diagnose.analysis import analyze
from diagnose.analysis.options import Options
from diagnose.diagnosis import Diagnosis, Finding, Speedup
from diagnose.errors import UserError
from diagnose.facts import Fact, in_a_sentence
from diagnose.judge.next_change import of_another_class
from diagnose.metrics import units
from diagnose.report import html, markdown, text
from diagnose.report.html import About
from diagnose.rule import Rule, load_rules
from diagnose.rule.rule import Unless, names_in

SAMPLES = Path(__file__).parents[2] / "sample_traces"
NAMES = sorted(path.name for path in SAMPLES.glob("*-*") if path.is_dir() or path.name.endswith(".json.gz"))
REAL = ("DIAGNOSE_REAL_TRACES", "DIAGNOSE_MORE_TRACES")
NOTHING = re.compile(r"(?<![\d.])0(\.0)? %")


def answer(path: Path) -> Diagnosis:
    return diagnosis_of(path)


def real_answers() -> Iterator[Diagnosis]:
    """The diagnoses of the public traces that are here; those that are several runs, or none, are left out."""
    for folder in (Path(os.environ[name]) for name in REAL if name in os.environ):
        for path in sorted(folder.iterdir()):
            try:
                yield answer(path)
            except UserError:
                continue


def assert_joined(found: Diagnosis) -> None:
    chosen = next((finding for finding in found.findings if finding.rule == found.next.rule), None)
    if found.next.kind != "change" or chosen is None or found.verdict.class_ == "undecided":
        return
    late_for = {late.cause for late in found.stragglers} if chosen.class_ == "imbalance" else set()
    same = found.verdict.class_ in {f"{class_}-bound" for class_ in (chosen.class_, *late_for)}
    assert same != bool(found.next.of_another_class)


def assert_of_this_job(found: Diagnosis) -> None:
    assert [each for each in found.not_advised if NOTHING.search(each.because)] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_advice_of_a_sample_is_of_the_class_or_says_why_not(name: str) -> None:
    assert_joined(answer(SAMPLES / name))
    assert_of_this_job(answer(SAMPLES / name))


@pytest.mark.long
@pytest.mark.skipif(not any(name in os.environ for name in REAL), reason=f"neither of {REAL} names a folder")
def test_the_advice_of_a_real_job_is_of_the_class_or_says_why_not() -> None:
    for found in real_answers():
        assert_joined(found)
        assert_of_this_job(found)


def finding(class_: str, rule: str, gain: Speedup | None) -> Finding:
    return replace(diagnoses.SLOW_NORM, rule=rule, class_=class_, predicted_speedup=gain)


LOADING = finding("data", "data-wait", (1.2, 1.5))
BECAUSE = "it leads"
JOINED = {
    "of the class": (finding("compute", "a", (1.2, 1.5)), (), ""),
    "no fault of the class": (LOADING, (), "no known change shortens arithmetic here."),
    "surer than those of the class": (
        LOADING, (finding("compute", "a", (1.0, 2.0)),),
        "the best arithmetic change saves less in its worst case (nothing, not 1.20x).",
    ),
    "those of the class are not predicted": (
        LOADING, (finding("compute", "a", None),),
        "this gains 1.20x, and what the best arithmetic change saves is not known.",
    ),
    "one of the class gains more": (LOADING, (finding("compute", "a", (1.4, 2.0)),), "it leads (a: 1.40x)."),
    "its own gain is unknown": (finding("data", "b", None), (finding("compute", "a", (1.4, 2.0)),), "it leads."),
}  # fmt: skip


@pytest.mark.parametrize("how", JOINED)
def test_a_change_of_another_class_says_why_it_comes_first(how: str) -> None:
    chosen, others, why = JOINED[how]
    found = diagnoses.diagnosis(verdict=diagnoses.verdict("compute-bound"), findings=(chosen, *others))

    assert of_another_class(chosen, BECAUSE, found).endswith(why)
    assert bool(of_another_class(chosen, BECAUSE, found)) == bool(why)


def test_every_report_prints_the_sentence() -> None:
    found = diagnoses.diagnosis(verdict=diagnoses.verdict("memory-bound"), findings=(LOADING,))
    about, console = About("1.2.3", "diagnose analyze run/"), Console(file=io.StringIO(), width=1000, color_system=None)
    text.render(found, console)
    pages = (console.file.getvalue(), html.page(found, about), markdown.markdown(found, about))  # type: ignore[attr-defined]

    assert all(found.next.of_another_class in " ".join(page.split()) for page in pages)


CLAIMED = {"synthetic-communication-bound.json.gz": 53.3, "h200-misaligned-products.json.gz": 74.0}


@pytest.mark.parametrize("name", CLAIMED)
def test_a_claim_above_what_the_products_can_fill_is_refused_with_both_figures(name: str) -> None:
    known = answer(SAMPLES / name)
    assert known.mfu.peak_flops is not None
    step_s = known.steps.device_time_ns / known.steps.count / 1e9
    claim = Options(flops_per_step=0.819 * known.mfu.peak_flops * step_s)
    refused = analyze(SAMPLES / name, options=claim).mfu

    assert refused.value is None
    assert (
        f"81.9 % of the peak is impossible: kernels that compute products run for {CLAIMED[name]} %" in refused.reason
    )


def sentences() -> Iterator[tuple[Rule, Unless]]:
    """What each rule says against its change."""
    for rule in load_rules([], units()):
        of_patch = rule.patch.not_when if rule.patch else ()
        for each in (*rule.not_when, *of_patch, *([rule.negative] if rule.negative else [])):
            yield rule, each


def test_what_rests_on_a_number_gives_a_number() -> None:
    silent = [
        (rule.id, each.because)
        for rule, each in sentences()
        if not names_in(each.because)
        and (each.holds is None or any(units()[name] not in ("flag", "text") for name in each.holds.names))
    ]

    assert silent == []


def test_no_sentence_of_a_rule_holds_a_share_of_nothing() -> None:
    for rule, each in sentences():
        nothing = {name: Fact(name, 0.0, units()[name], "the step") for name in names_in(each.because)}

        assert not NOTHING.search(rule.sentence(each.because, nothing)), rule.id


@pytest.mark.parametrize(
    ("share", "said"), [(0.0, "none"), (4e-4, "less than 0.1 %"), (6e-4, "0.1 %"), (0.2, "20.0 %")]
)
def test_a_share_of_nothing_is_a_word_in_a_sentence(share: float, said: str) -> None:
    assert in_a_sentence(share, "share") == said
