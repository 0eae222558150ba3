"""The pages of comparisons and tunes in headless Chromium: their bars add up and lie where the answer says."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browser
from compared_runs import SAMPLES
from report.whole_pages import ABOUT, of_twelve_runs, tuned

from diagnose.analysis import analyze
from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.html import comparison_page
from diagnose.report.html import page
from diagnose.report.html.factors import axis_of

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def compared() -> Comparison:
    return compare(analyze(SAMPLES / "cpu-slow-loader.json.gz"), analyze(SAMPLES / "cpu-healthy.json.gz"))


def opened(tab: Browser, folder: Path, text: str, width: int = 1400, scheme: str = "light") -> None:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    tab.open(path, width=width, scheme=scheme)


def test_the_bars_of_a_comparison_lead_from_a_to_b(tab: Browser, tmp_path: Path) -> None:
    found = compared()
    opened(tab, tmp_path, comparison_page(found, ABOUT))
    rows = tab.run("""[...document.querySelectorAll('.moves tbody tr')].map(row => ({
        ns: +row.dataset.ns, says: row.querySelector('.number').textContent,
        kind: row.querySelectorAll('rect')[1].getAttribute('class')}))""")

    first, *moved, last = rows
    assert (first["ns"], last["ns"]) == (found.before_ns, found.after_ns)
    assert first["ns"] + sum(row["ns"] for row in moved) == last["ns"]
    assert [row["kind"] for row in moved] == ["more" if row["ns"] > 0 else "less" for row in moved]
    assert all(row["says"].startswith(("+", "<")) for row in moved if row["ns"] > 0)


def test_the_middle_of_a_run_is_drawn_inside_its_range_exactly_if_it_lies_there(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, of_twelve_runs())
    rows = tab.run("""[...document.querySelectorAll('.tried tbody tr')].map(row => {
        const range = row.querySelector('.predicted'), x = +row.querySelector('.middle').getAttribute('x1');
        const from = range && +range.getAttribute('x');
        return range && [from <= x && x <= from + +range.getAttribute('width'), row.dataset.inside]})""")

    ranges = [(rung.predicted, rung.achieved) for rung in tuned().rungs[1:]]
    assert [row is None for row in rows] == [predicted is None for predicted, _ in ranges]
    for row, (predicted, achieved) in zip(rows, ranges, strict=True):
        if predicted is not None and predicted[1] is not None and achieved is not None:
            inside = predicted[0] <= achieved[1] <= predicted[1]
            assert row == [inside, "yes" if inside else "no"]


def test_the_bar_of_the_gain_is_the_range_of_the_answer(tab: Browser, tmp_path: Path) -> None:
    found = analyze(SAMPLES / "synthetic-memory-bound.json.gz")
    chosen = found.finding(found.next.rule)
    assert chosen is not None
    assert chosen.predicted_speedup is not None
    opened(tab, tmp_path, page(found, ABOUT))
    at = "Number(document.querySelector('.gainbar .won').getAttribute('{}'))"
    x, width = tab.run(at.format("x")), tab.run(at.format("width"))
    likely = tab.run("Number(document.querySelector('.gainbar circle').getAttribute('cx'))")
    low, high = chosen.predicted_speedup
    axis = axis_of([low, high or low])

    assert (x, x + width) == (
        pytest.approx(3 * axis.at(low), abs=0.2),
        pytest.approx(3 * axis.at(high or low), abs=0.2),
    )
    assert x < likely < x + width
    assert tab.run("document.querySelector('.gainbar').getAttribute('aria-label')").startswith("about ")


def test_both_steps_of_a_comparison_are_stacked_from_their_classes(tab: Browser, tmp_path: Path) -> None:
    found = compared()
    opened(tab, tmp_path, comparison_page(found, ABOUT))
    steps = tab.run("""[...document.querySelectorAll('.pair .stack')].map(stack =>
        [...stack.querySelectorAll('[data-class]')].map(part =>
            [part.dataset.class, +part.dataset.ns, parseFloat(part.firstElementChild.getAttribute('width'))]))""")

    longest = max(found.before_ns or 0, found.after_ns or 0)
    for parts, whole_ns in zip(steps, (found.before_ns, found.after_ns), strict=True):
        assert sum(ns for _, ns, _ in parts) == pytest.approx(whole_ns, rel=1e-6)
        assert all(width == pytest.approx(100 * ns / longest, abs=0.001) for _, ns, width in parts)


def test_the_way_of_a_tune_ends_at_the_total(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, of_twelve_runs())
    places = [
        float(x) for x in re.findall(r"H([\d.]+)", tab.run("document.querySelector('.way path').getAttribute('d')"))
    ]

    rungs = tuned().rungs[1:]
    ends = [end for rung in rungs for end in (*(rung.predicted or ()), *(rung.achieved or ())) if end]
    kept = [rung.total[1] for rung in rungs if rung.total and rung.decision == "kept"]
    assert places == sorted(places)
    assert len(places) == len(rungs)
    assert places[-1] == pytest.approx(axis_of(ends).at(kept[-1]), abs=0.01)
