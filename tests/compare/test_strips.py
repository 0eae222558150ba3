"""The single steps of both sides on one axis: those of the answer, at their places."""

from pathlib import Path

import pytest
from browser import CHROMIUM, browser
from compared_runs import MS, log, run
from report.pages import Read

from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.html import comparison_page
from diagnose.commands.compare.waterfall import strips
from diagnose.report.html import About


def test_dots_are_the_steps_of_the_answer() -> None:
    comparison = compare(run(101, 100, 102), run(81, 80, 79))
    drawn = strips(comparison)

    assert drawn is not None
    assert comparison.before.each_ns == (100 * MS, 101 * MS, 102 * MS)
    assert [[ns for ns, _ in side.steps] for side in drawn.sides] == [
        list(side.each_ns) for side in (comparison.before, comparison.after)
    ]
    assert (drawn.first, drawn.last) == ("79.0 ms", "102.0 ms")
    assert [place for _, place in drawn.sides[0].steps][-1] == 100
    assert drawn.sides[1].steps[0] == (79 * MS, 0)
    assert drawn.sides[1].mean == pytest.approx(100 * 1 / 23)


def test_a_rare_stall_is_no_compared_step() -> None:
    comparison = compare(run(100, 101, 102, 100, 101, 900), run(81, 80, 79))

    assert max(comparison.before.each_ns) == 102 * MS
    assert comparison.before.left_out == 1


def test_of_many_steps_the_shortest_and_the_longest_are_among_the_listed() -> None:
    many = compare(log(*(100 + at % 7 for at in range(5000))), log(*(90 + at % 7 for at in range(5000)))).before

    assert (len(many.each_ns), many.steps) == (200, 5000)
    assert (many.each_ns[0], many.each_ns[-1]) == (100 * MS, 106 * MS)


def test_steps_of_which_only_the_mean_is_known_are_not_drawn() -> None:
    comparison = compare(run(100, 101, 102), run(80, 81, each_ns=(), noise_share=0.01))

    assert comparison.after.each_ns == ()
    assert strips(comparison) is None
    assert "Single steps" not in Read(comparison_page(comparison, About("1"))).shown


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_each_step_is_drawn_once(tmp_path: Path) -> None:
    comparison = compare(run(101, 100, 102), run(81, 80, 79))
    (tmp_path / "page.html").write_text(comparison_page(comparison, About("1")), encoding="utf-8")
    with browser(tmp_path / "profile") as tab:
        tab.open(tmp_path / "page.html", width=400)

        drawn = "[...document.querySelectorAll('.dots circle')].map(dot => Number(dot.dataset.ns))"
        assert tab.run(drawn) == [*comparison.before.each_ns, *comparison.after.each_ns]
        left = "[...document.querySelectorAll('.dots circle')].map(dot => dot.getBoundingClientRect().left)"
        places = tab.run(left)
        assert max(places[3:]) < min(places[:3])
        assert tab.run("document.documentElement.scrollWidth") <= 400
