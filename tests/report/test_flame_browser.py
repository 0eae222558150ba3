"""The flame graph of a real capture in headless Chromium: it zooms, goes back, searches, and is reached by keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser, browser
from report.pages import written

from diagnose.analysis import analyze

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]
MEASURED = Path(__file__).parents[1] / "measured" / "h100-eager-attention"
FRAMES = """[...document.querySelectorAll('.frame')].map(frame => ({
    name: frame.dataset.name, shown: getComputedStyle(frame).display !== 'none', level: +frame.ariaLevel,
    says: frame.querySelector('title').textContent, text: frame.querySelector('text').textContent,
    x: parseFloat(frame.getAttribute('x')), width: parseFloat(frame.getAttribute('width'))}))"""
FOCUSED = "document.activeElement.dataset?.name ?? document.activeElement.tagName"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(written(analyze(MEASURED)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def page(tab: Browser, file: Path) -> Browser:
    tab.open(file, width=1280)
    tab.run("document.querySelector('.frame').focus()")
    return tab


def shown(tab: Browser) -> list[dict[str, Any]]:
    return [frame for frame in tab.run(FRAMES) if frame["shown"]]


def full(tab: Browser) -> list[str]:
    return [frame["name"] for frame in shown(tab) if frame["width"] > 99.9]


def test_each_frame_says_what_it_is_and_how_much(page: Browser) -> None:
    frames = page.run(FRAMES)

    assert frames[0]["says"] == "202 samples of the training thread"
    assert frames[1]["says"] == "backward, 123 samples, 60.9 %"
    assert all(" samples, " in frame["says"] and frame["says"].endswith(" %") for frame in frames[1:])
    assert page.complaints == []


def test_enter_zooms_backspace_goes_back_and_escape_shows_the_whole(page: Browser) -> None:
    before = shown(page)
    page.press("ArrowDown")
    page.press("ArrowRight")
    assert page.run(FOCUSED) == "forward"

    page.press("Enter")
    assert full(page)[:2] == ["all: 202 samples of the training thread", "forward"]
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("Enter")
    deeper = full(page)
    page.press("Backspace")
    assert full(page)[:2] == ["all: 202 samples of the training thread", "forward"]
    assert set(full(page)) <= set(deeper)
    page.press("Escape")
    assert shown(page) == before


def test_arrows_follow_the_calls_and_tab_enters_once(page: Browser) -> None:
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.press(key)
    assert page.run(FOCUSED).startswith("main ")
    assert "main (" in page.run("document.querySelector('.flame .details').textContent")
    page.press("ArrowUp")
    assert page.run(FOCUSED) == "fault_job.py:93"
    assert page.run("document.querySelectorAll('.frame[tabindex=\"0\"]').length") == 1


def test_a_click_zooms_and_names_grow_into_the_room(page: Browser) -> None:
    named = "[...document.querySelectorAll('.frame')].find(frame => frame.dataset.name.startsWith('attended'))"
    page.run(f"{named}.dispatchEvent(new MouseEvent('click', {{bubbles: true}}))")

    (wide,) = [frame for frame in shown(page) if frame["name"].startswith("attended") and frame["width"] > 99.9]
    assert wide["text"] == wide["name"]
    page.run("document.getElementById('flame-whole').click()")
    assert full(page) == ["all: 202 samples of the training thread"]


def test_search_marks_the_frames_of_a_file(page: Browser) -> None:
    page.run("document.getElementById('flame-search').focus()")
    for key in "models":
        page.press(key)

    names = [frame["name"] for frame in page.run(FRAMES)]
    found = page.run("[...document.querySelectorAll('.frame.found')].map(frame => frame.dataset.name)")
    assert found == [name for name in names if "models" in name]
    assert found
    assert page.run("document.querySelector('.flame [role=status].window').textContent").startswith(f"{len(found)} of")
    page.press("Escape")
    assert page.run("document.querySelectorAll('.found').length") == 0


@pytest.mark.parametrize("width", [400, 800, 1400])
def test_names_stay_inside_their_frames(page: Browser, width: int) -> None:
    page.resize(width)
    page.run("dispatchEvent(new Event('resize'))")

    beyond = """[...document.querySelectorAll('.frame')].filter(frame => frame.checkVisibility())
        .map(frame => ['text', 'rect'].map(part => frame.querySelector(part).getBoundingClientRect().right))
        .filter(([text, box]) => text > box + 1)"""
    assert page.run(beyond) == []
    assert page.run("document.documentElement.scrollWidth") <= width
