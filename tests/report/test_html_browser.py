"""The HTML report in headless Chromium: it complains of nothing, zooms, searches, and runs no name."""

from collections.abc import Callable, Iterator
from pathlib import Path

import drawn
import pytest
from browser import CHROMIUM, Browser, browser
from report.pages import sample

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.report.html import About, page
from diagnose.report.html.roofline import BARS_BOTTOM, BARS_TOP, VISIBLE, family_name
from diagnose.report.views.breakdown import basis

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def opened(tab: Browser, folder: Path, diagnosis: Diagnosis, width: int = 1280, scheme: str = "light") -> None:
    path = folder / "report.html"
    path.write_text(page(diagnosis, About("1.2.3")), encoding="utf-8")
    tab.open(path, width=width, scheme=scheme)


def window(tab: Browser) -> list[float]:
    """What part of the step the timeline shows, from and to, in thousandths."""
    box = tab.run("document.querySelector('.lane[data-lane] svg').getAttribute('viewBox')")
    start, _, length, _ = (float(part) for part in box.split())
    return [round(start / 1000), round((start + length) / 1000)]


def details(tab: Browser) -> str:
    return tab.run("document.querySelector('#timeline .details').textContent")


def explained() -> Diagnosis:
    """A job whose first change says beside its gain what the upper end counts."""
    return analyze(Path(__file__).parents[1] / "measured" / "checkpoint-each-step")


@pytest.mark.parametrize("case", [drawn.drawn, drawn.joined, explained])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_the_page_complains_of_nothing_and_fits(
    tab: Browser, tmp_path: Path, width: int, scheme: str, case: Callable[[], Diagnosis]
) -> None:
    opened(tab, tmp_path, case(), width, scheme)

    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith("file:")] == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run("document.documentElement.className") == "js"


def test_names_of_thousands_of_characters_fit_the_page(
    tab: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawn, "HOSTILE", "A" * 2000)  # of 5000, Chromium lays out six times as long
    opened(tab, tmp_path, drawn.hostile(), 360)

    tab.run("document.querySelectorAll('details').forEach(folded => folded.open = true)")

    wide = "section => section.scrollWidth > section.clientWidth + 1"
    bars = "document.querySelector('.bars')"
    for width in (360, 800, 1280):
        tab.resize(width)
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run(f"[...document.querySelectorAll('section')].filter({wide}).map(section => section.id)") == []
        assert tab.run(f"{bars}.scrollWidth <= {bars}.parentElement.clientWidth")


CUT = """[...document.querySelectorAll('body *')]
    .filter(e => e.clientWidth && !e.closest('svg') && !e.matches('.sr, .skip'))
    .filter(e => e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible'
        || e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => `${e.tagName} ${e.className}: ${e.textContent.trim().slice(0, 40)}`)"""


@pytest.mark.parametrize("case", [drawn.drawn, drawn.joined, lambda: sample("synthetic-straggler")])
def test_nothing_is_cut_on_a_phone(tab: Browser, tmp_path: Path, case: Callable[[], Diagnosis]) -> None:
    opened(tab, tmp_path, case(), 400)

    tab.run("document.querySelectorAll('details').forEach(folded => folded.open = true)")

    assert tab.run(CUT) == []


def test_a_violation_of_the_policy_would_be_seen(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())

    tab.run("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">x</p>')")

    assert "Content Security Policy" in " ".join(tab.complaints)


def test_a_hostile_name_stays_text(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.hostile())
    tab.run("document.querySelector('#timeline .timeline').focus()")
    for key in ("ArrowDown", "ArrowRight"):
        tab.press(key)

    assert "</script></style><img src=x onerror=alert(1)>" in details(tab)
    assert tab.run("document.querySelectorAll('img').length") == 0
    assert tab.complaints == []


def test_keys_select_slices_and_zoom(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    tab.run("document.querySelector('.timeline').focus()")

    tab.press("ArrowRight")
    tab.press("ArrowRight")
    assert details(tab).startswith("idle and waiting: operator dispatch, host: 24.0 ms (13.8 % of this step)")
    tab.press("ArrowLeft")
    tab.press("+")
    tab.press("+")
    assert window(tab) == [149, 399]  # about the middle of the wait, which is at 34.5 of 174 ms
    tab.press("ArrowDown")
    assert "nvjet_tst_128x256, compute-bound work: 60.0 ms" in details(tab)
    tab.press("ArrowRight")
    assert "stream 7: 7 short ones, most of it nvjet_tst_128x256" in details(tab)
    tab.press("0")
    assert window(tab) == [0, 1000]


def test_a_pointer_shows_details_and_drags(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    tab.run("document.querySelector('#timeline').scrollIntoView()")
    at = "(() => { const b = document.querySelector('.lane.stream .track').getBoundingClientRect();"
    x, y, wide = tab.run(at + "return [b.left + b.width / 2, b.top + 9, b.width] })()")

    tab.mouse("mouseMoved", x, y)
    assert "nvjet_tst_128x256" in details(tab)
    tab.run("document.querySelector('[data-zoom=in]').click()")
    before = window(tab)
    tab.mouse("mousePressed", x, y, button="left", clickCount=1)
    tab.mouse("mouseMoved", x - wide / 5, y, button="left", buttons=1)
    tab.mouse("mouseReleased", x - wide / 5, y, button="left", clickCount=1)
    assert window(tab) == [at + 100 for at in before]


def test_a_wait_is_shown_where_it_is_longest(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())

    tab.run("[...document.querySelectorAll('.show')].at(-1).click()")

    assert "operator dispatch" in details(tab)
    assert window(tab)[0] > 500


def test_search_finds_and_sort_orders(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    visible = "[...document.querySelectorAll('#kernel-table tbody tr')].filter(r => r.offsetHeight)"
    name = ".map(r => r.querySelector('code').textContent)"

    assert tab.run(f"{visible}.length") == 20
    tab.run("document.querySelector('#kernel-search').focus()")
    for key in "allred":
        tab.press(key)
    assert tab.run(visible + name) == ["ncclDevKernel_AllReduce"]
    assert tab.run("document.querySelector('#kernel-count').textContent") == "1 of 32 rows"
    tab.press("Escape")
    tab.run("document.querySelectorAll('th[data-sort] button')[1].click()")
    assert tab.run(visible + name)[0] == "elementwise_kernel_29"
    tab.run("document.querySelector('#kernel-all').click()")
    assert tab.run(f"{visible}.length") == 32


def test_a_change_is_copied_or_selected(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    tab.run("document.querySelector('.copy').click()")
    tab.run("new Promise(done => setTimeout(done, 100))")

    said = tab.run("document.querySelector('.copy').textContent")
    assert said in ("Copied", "Selected")
    if said == "Selected":
        assert tab.run("String(getSelection())").startswith("TrainingArguments(")


def test_a_link_opens_its_finding(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    tab.run("document.querySelector('a[href=\"#finding-damaged-trace\"]').click()")
    tab.run("new Promise(done => setTimeout(done, 50))")

    assert tab.run("document.getElementById('finding-damaged-trace').open") is True


def test_a_point_of_the_roofline_tells_its_figures(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    tab.run("document.querySelector('.point').focus()")

    told = tab.run("document.querySelector('figcaption').textContent")
    assert told.startswith("matrix products bf16: 500 TFLOP/s at 400.0 FLOP per byte, 40.0 ms per step")


def test_the_link_of_the_section_on_the_screen_is_current(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    current = "[...document.querySelectorAll('nav [aria-current]')].map(link => link.textContent)"

    assert tab.run(current) == ["Verdict"]
    tab.run("document.getElementById('roofline').scrollIntoView()")
    tab.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert tab.run(current) == ["Roofline"]


def test_arrows_go_from_point_to_bar_and_tab_enters_once(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    tab.run("document.querySelector('.point').focus()")
    points = tab.run("document.querySelectorAll('.point').length")
    for _ in range(points):
        tab.press("ArrowRight")

    assert points > 1
    assert tab.run("[...document.querySelectorAll('.point')].indexOf(document.activeElement)") == points - 1
    assert tab.run("document.querySelectorAll('.point[tabindex=\"0\"]').length") == 1


def test_it_prints(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.drawn())
    tab.pdf(tmp_path / "report.pdf")

    assert (tmp_path / "report.pdf").read_bytes()[:5] == b"%PDF-"
    assert tab.complaints == []


@pytest.mark.parametrize("name", ["synthetic-memory-bound.json.gz", "h200-llama-eager.json.gz"])
def test_each_family_that_takes_time_is_marked_once(tab: Browser, tmp_path: Path, name: str) -> None:
    """Families whose FLOPs nobody counts have no point in the drawing, but a bar of their bandwidth beside it."""
    diagnosis = sample(name)
    opened(tab, tmp_path, diagnosis)
    marks = tab.run("""[...document.querySelectorAll('#roofline [data-family]')].map(mark => ({
        name: mark.dataset.family, ms: +mark.dataset.ms, inside: (({x, y, width, height}, box) =>
            x >= box.x && y >= box.y && x + width <= box.x + box.width && y + height <= box.y + box.height)(
            mark.firstElementChild.getBBox(), mark.closest('svg').viewBox.baseVal)}))""")

    least = VISIBLE * basis(diagnosis).step_ns
    long = [entry for entry in diagnosis.roofline if entry.bytes is not None and entry.ns >= least]
    known = {(family_name(entry), entry.ns / 1e6) for entry in diagnosis.roofline}
    assert {family_name(entry) for entry in long} <= {mark["name"] for mark in marks}
    assert all((mark["name"], mark["ms"]) in known and mark["inside"] for mark in marks)
    assert len(marks) >= 5


def test_a_bar_is_as_high_as_the_share_of_the_bandwidth(tab: Browser, tmp_path: Path) -> None:
    diagnosis = sample("synthetic-memory-bound.json.gz")
    opened(tab, tmp_path, diagnosis)
    bars = tab.run("""Object.fromEntries([...document.querySelectorAll('.reach [data-family]')].map(mark =>
        [mark.dataset.family, +mark.firstElementChild.getAttribute('height')]))""")

    roofs = diagnosis.roofs
    assert roofs is not None
    assert roofs.hbm_bytes_per_s is not None
    of_bytes = {family_name(e): e.gbs for e in diagnosis.roofline if e.gbs is not None and e.tflops is None}
    assert bars
    for name, height in bars.items():
        share = 1e9 * of_bytes[name] / roofs.hbm_bytes_per_s
        assert height == pytest.approx(share * (BARS_BOTTOM - BARS_TOP), abs=0.1)
