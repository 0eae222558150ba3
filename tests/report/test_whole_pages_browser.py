"""Every page in headless Chromium as people use it: narrow, enlarged, dark, by keys, read aloud, printed, bare."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browser
from report.whole_pages import ANALYZED, NAMES, whole_page

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]
OPEN_ALL = "document.querySelectorAll('details').forEach(folded => folded.open = true)"
# Elements outside a scrolling box that end right of the window, and text that is cut without an ellipsis.
BEYOND = """[...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().width && !e.closest('.scroll *, svg *, .sr, .skip'))
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => `${e.tagName} ${e.className}: ${e.textContent.trim().slice(0, 40)}`)"""
CUT = """[...document.querySelectorAll('body *')]
    .filter(e => e.clientWidth && !e.closest('svg') && !e.matches('.sr, .skip, .scroll'))
    .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible')
    .filter(e => getComputedStyle(e).textOverflow !== 'ellipsis')
    .map(e => `${e.tagName} ${e.className}: ${e.textContent.trim().slice(0, 40)}`)"""
# Text below 11 pixels as it stands on the screen, and labels of a drawing that lie on each other.
TEXTS = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.matches('title') &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))"""
SMALL = f"""[...new Set({TEXTS}.map(e => {{
    const svg = e.closest('svg[viewBox]');
    const scale = svg ? svg.getScreenCTM().a : 1;
    return [scale * parseFloat(getComputedStyle(e).fontSize), `${{e.tagName}}: ${{e.textContent.trim().slice(0, 20)}}`];
}}).filter(([size]) => size < 11).map(String))]"""
COVERED = """[...document.querySelectorAll('svg')].flatMap(svg => {
    const boxes = [...svg.querySelectorAll(':scope text')].filter(text => text.textContent && text.checkVisibility())
        .map(text => [text.textContent, text.getBoundingClientRect()]);
    const cover = (p, q) => Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1
        && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3;
    return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) => cover(p, q)).map(([b]) => `${a} | ${b}`));
})"""
NEED_NAMES = (
    "application", "button", "combobox", "figure", "image", "link", "navigation", "region", "searchbox", "tree",
    "treeitem",
)  # fmt: skip
# Drawings that no reader of a screen is told of: neither in words nor as one of a figure's named parts.
UNTOLD = """[...document.querySelectorAll('svg')]
    .filter(svg => svg.checkVisibility() && !svg.closest('[aria-hidden=true]') && !svg.querySelector('[aria-label]'))
    .filter(svg => !svg.closest('[role=img][aria-label], [role=tree][aria-label]'))
    .map(svg => svg.outerHTML.slice(0, 80))"""
CONTRAST = """(() => {
    const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
    const linear = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) + 0.05;
    const ground = (e) => { const own = parse(getComputedStyle(e).backgroundColor);
        return own[3] === 0 && e.parentElement ? ground(e.parentElement) : own; };
    const ratio = (a, b) => Math.max(light(a), light(b)) / Math.min(light(a), light(b));
    const texts = [...document.querySelectorAll('body *')].filter(e => e.checkVisibility()
        && !e.closest('svg, .track, .sr') && [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
    return texts.map(e => [ratio(parse(getComputedStyle(e).color), ground(e)), e.textContent.trim().slice(0, 30)])
        .filter(([ratio]) => ratio < 4.5).map(String);
})()"""
SECTIONS = "[...document.querySelectorAll('section, header')].map(part => part.id)"
FOCUS = """(e => ({ at: e.id || e.className?.baseVal || e.className || e.tagName,
    section: e.closest('section, header')?.id ?? '', seen: getComputedStyle(e).outlineStyle !== 'none'
        || [...e.querySelectorAll('circle, rect')].some(mark => parseFloat(getComputedStyle(mark).strokeWidth) >= 3),
    chart: e.matches('.timeline') ? e.getAttribute('aria-label')
        : e.matches('.point') ? e.closest('figure').getAttribute('aria-label')
        : e.matches('.frame') ? 'frames' : '' }))(document.activeElement)"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        opened.call("Accessibility.enable")
        yield opened


@pytest.fixture(scope="module", params=NAMES)
def file(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole_page(request.param, tmp_path_factory.mktemp("page"))


def test_it_fits_every_window_and_nothing_is_cut_or_covered(tab: Browser, file: Path) -> None:
    for width, scheme in ((1400, "light"), (800, "dark"), (400, "light")):
        tab.open(file, width=width, scheme=scheme)
        tab.run(OPEN_ALL)

        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run(BEYOND) == [], width
        assert tab.run(CUT) == [], width
        assert tab.run(COVERED) == [], width
        assert tab.run(SMALL) == [], width
        assert tab.run("[...document.querySelectorAll('.scroll')].every(box => box.tabIndex === 0)")
        assert tab.run("[...document.querySelectorAll('table')].every(t => t.closest('.scroll, details, section'))")
        assert tab.complaints == []
        assert [url for url in tab.requests if not url.startswith("file:")] == []


def test_text_of_double_size_fits(tab: Browser, file: Path) -> None:
    for width in (1400, 800, 400):
        tab.open(file, width=width)
        tab.run("document.documentElement.style.fontSize = '200%'; document.body.style.fontSize = '200%'")
        tab.run("dispatchEvent(new Event('resize'))")

        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run(BEYOND) == [], width


def test_a_screen_reader_is_told_of_every_control_and_picture(tab: Browser, file: Path) -> None:
    tab.open(file)
    nodes = tab.call("Accessibility.getFullAXTree")["nodes"]
    seen = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n["ignored"]]

    assert [role for role, name in seen if role in NEED_NAMES and not name.strip()] == []
    assert tab.run(UNTOLD) == []
    assert [role for role, _ in seen].count("main") == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(tab: Browser, file: Path, scheme: str) -> None:
    tab.open(file, scheme=scheme)
    tab.run(OPEN_ALL)

    assert tab.run(CONTRAST) == []


def test_tab_goes_through_the_page_once_and_shows_where_it_is(tab: Browser, file: Path) -> None:
    tab.open(file)
    stops = []
    for _ in range(400):
        tab.tab_key()
        stop = tab.run(FOCUS)
        if stop["at"] == "BODY" or (len(stops) > 1 and stop == stops[0]):
            break
        stops.append(stop)

    assert [stop["at"] for stop in stops if not stop["seen"]] == []
    charts = [stop["chart"] for stop in stops if stop["chart"]]
    assert len(charts) == len(set(charts))
    assert len(charts) == tab.run("""document.querySelectorAll('.timeline').length
        + document.querySelectorAll('figure:has(.point)').length + !!document.querySelector('.frame')""")
    order = list(dict.fromkeys(stop["section"] for stop in stops if stop["section"]))
    assert order == [part for part in tab.run(SECTIONS) if part in order]


def test_it_prints_whole(tab: Browser, file: Path) -> None:
    """On paper all details are open, no table scrolls, and nothing is wider than the sheet."""
    sheet = 718  # of A4 within its margins, in CSS pixels
    tab.open(file, width=sheet)
    tab.run("dispatchEvent(new Event('beforeprint'))")
    tab.call("Emulation.setEmulatedMedia", media="print")

    wide = """[...document.querySelectorAll('.scroll')].filter(box => box.scrollWidth > box.clientWidth + 1)
        .map(box => box.getAttribute('aria-label'))"""
    assert tab.run("document.documentElement.scrollWidth") <= sheet
    assert tab.run(wide) == []
    assert tab.run("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    tab.call("Emulation.setEmulatedMedia", media="")


def test_without_scripts_it_draws_the_same(tab: Browser, file: Path) -> None:
    marks = "[...document.querySelectorAll('svg :is(rect, circle, path, line)')].length"
    tab.open(file)
    tab.run("document.querySelectorAll('.mark, .text').forEach(added => added.remove())")
    with_script = tab.run(marks)
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(file)
    root = tab.call("DOM.getDocument", depth=-1, pierce=True)["root"]["nodeId"]
    found = tab.call("DOM.querySelectorAll", nodeId=root, selector="svg :is(rect, circle, path, line)")["nodeIds"]
    ran = tab.call("DOM.querySelector", nodeId=root, selector="html.js")["nodeId"]
    tab.call("Emulation.setScriptExecutionDisabled", value=False)

    assert not ran
    assert len(found) == with_script > 0
    assert tab.complaints == []


TEN_SECONDS = ("h1", ".title .sure", ".lead", ".next h2", ".gainbar", ".next .gain")


@pytest.mark.parametrize("name", list(ANALYZED))
def test_what_is_slow_what_to_do_and_how_sure_stand_on_a_phones_first_screen(
    tab: Browser, tmp_path: Path, name: str
) -> None:
    """What a reader looks for in the first ten seconds is there without scrolling, in this order."""
    tab.open(whole_page(name, tmp_path), width=400, height=800)
    bottoms = [
        tab.run(f"document.querySelector('{part}')?.getBoundingClientRect().bottom ?? null") for part in TEN_SECONDS
    ]

    there = [bottom for bottom in bottoms if bottom is not None]
    assert None not in bottoms[:4]
    assert there == sorted(there)
    assert there[-1] <= 800
    text = tab.run("document.querySelector('#verdict').innerText")
    diagnosis = ANALYZED[name]()
    assert diagnosis.verdict.class_ in text
    assert f"confidence {diagnosis.verdict.confidence}" in text
    assert " %" in tab.run("document.querySelector('.lead').textContent")


@pytest.mark.parametrize("name", list(ANALYZED))
def test_the_whole_answer_stands_on_the_first_screen_of_a_laptop(tab: Browser, tmp_path: Path, name: str) -> None:
    tab.open(whole_page(name, tmp_path), width=1400, height=900)

    assert tab.run("document.querySelector('#verdict .tiles').getBoundingClientRect().bottom") <= 900


def test_a_page_of_eight_ranks_is_small(tab: Browser, tmp_path: Path) -> None:
    file = whole_page("dlrm-8" if "dlrm-8" in ANALYZED else "straggler", tmp_path)
    tab.open(file)
    tab.run("document.querySelectorAll('#job-timeline .open').forEach(button => button.click())")

    assert file.stat().st_size <= 500_000
    assert tab.run("document.querySelectorAll('*').length") <= 8_000
