"""The ranks in one step in headless Chromium: its selectors, its keys, the streams of a rank, and what fits."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import drawn
import pytest
from browser import CHROMIUM, Browser, browser
from report.pages import sample, written

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]
REAL = os.environ.get("DIAGNOSE_REAL_TRACES")
ROWS = "[...document.querySelectorAll('#job-timeline [data-rank]')]"


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def opened(tab: Browser, folder: Path, diagnosis: Diagnosis, width: int = 1280, scheme: str = "light") -> None:
    path = folder / "report.html"
    path.write_text(written(diagnosis), encoding="utf-8")
    tab.open(path, width=width, scheme=scheme)
    tab.run("document.querySelector('#job-timeline .timeline').focus()")


def choose(tab: Browser, what: str, value: str) -> None:
    select = f"document.querySelector('#job-timeline [data-choose={what}]')"
    tab.run(f"{select}.value = '{value}'; {select}.dispatchEvent(new Event('change'))")


def shown(tab: Browser) -> list[str]:
    """The ranks that have a row within the drawing."""
    seen: list[str] = tab.run(f"{ROWS}.filter(row => row.offsetHeight).map(row => row.dataset.rank)")
    return seen


def details(tab: Browser) -> str:
    text: str = tab.run("document.querySelector('#job-timeline [aria-live=polite].details').textContent")
    return text


def window(tab: Browser) -> list[int]:
    """The part of the step that the rows show, and so do the lines over them, in thousandths."""
    boxes = "[...document.querySelectorAll('#job-timeline .rows svg')].map(svg => svg.getAttribute('viewBox'))"
    parts = {(float(box.split()[0]), float(box.split()[2])) for box in tab.run(boxes)}
    (start, length) = parts.pop()
    assert not parts
    return [round(start / 1000), round((start + length) / 1000)]


def test_the_selectors_choose_ranks_and_step(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.joined())

    assert shown(tab) == ["0", "1"]
    choose(tab, "ranks", "1")
    assert shown(tab) == ["1"]
    assert tab.run(f"{ROWS}[0].dataset.ms") == "100"
    choose(tab, "ranks", "late")
    assert shown(tab) == ["0", "1"]
    choose(tab, "step", "1")
    visible = "[...document.querySelectorAll('#job-timeline .sub .of-step')].filter(part => !part.hidden)"
    assert "Step 14, the slowest" in tab.run(f"{visible}.map(part => part.textContent).join()")
    choose(tab, "ranks", "all")
    assert shown(tab) == ["0", "1"]
    assert tab.complaints == []


def test_keys_move_zoom_and_tell(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.joined())

    tab.press("+")
    assert window(tab) == [250, 750]
    tab.press("ArrowRight")
    assert window(tab) == [375, 875]
    tab.press("ArrowLeft")
    tab.press("-")
    assert window(tab) == [0, 1000]
    tab.press("+")
    tab.press("0")
    assert window(tab) == [0, 1000]
    tab.press("ArrowDown")
    assert details(tab).startswith("rank 0: begins at 0 ns, step of 100.0 ms")
    tab.press("ArrowDown")
    assert details(tab).startswith("rank 1 (late): begins at 5.0 ms")
    tab.press("ArrowUp")
    tab.press("Enter")
    assert details(tab).endswith("below it 1 lane of its streams and threads")


def test_a_rank_opens_its_streams_between_the_rows_and_the_lines_follow(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.joined())
    names = "[...document.querySelectorAll('#job-timeline .rows .name')].map(name => name.textContent)"
    ends = "document.querySelector('.joined').getAttribute('d').match(/[\\d.]+/g).map(Number)"
    centre = f"{ROWS}[1].querySelector('.track').getBoundingClientRect()"
    top = "document.querySelector('#job-timeline .rows').getBoundingClientRect().top"

    tab.run("document.querySelector('#job-timeline .open').click()")

    assert tab.run(names) == ["rank 0", "stream 7", "rank 1 late"]
    assert tab.run("document.querySelector('#job-timeline .open').getAttribute('aria-expanded')") == "true"
    assert tab.run(ends)[3] == pytest.approx(tab.run(f"{centre}.top + {centre}.height / 2 - {top}"), abs=1)
    tab.run("document.querySelector('#job-timeline .open').click()")
    assert tab.run(names) == ["rank 0", "rank 1 late"]


def test_a_pointer_tells_a_slice(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, drawn.joined())
    tab.run(f"{ROWS}[0].scrollIntoView({{block: 'center'}})")
    x, y, wide = tab.run(
        f"(box => [box.left, box.top + 5, box.width])({ROWS}[0].querySelector('.track').getBoundingClientRect())"
    )

    tab.mouse("mouseMoved", x + wide * 40 / 105, y)

    assert details(tab).startswith("rank 0: waiting for a rank late for data, data: 25.0 ms (25.0 % of this step)")


def test_the_script_draws_what_the_page_has_without_it(tab: Browser, tmp_path: Path) -> None:
    """The first state, as Python draws it and as the script draws it anew."""
    opened(tab, tmp_path, drawn.joined())
    drawing = f"{ROWS}.map(row => [...row.querySelectorAll('path')].map(path => path.getAttribute('d')))"
    after = tab.run(drawing)

    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.open(tmp_path / "report.html")
    root = tab.call("DOM.getDocument", depth=-1)["root"]["nodeId"]
    found = tab.call("DOM.querySelectorAll", nodeId=root, selector="#job-timeline [data-rank] path")["nodeIds"]
    before = [tab.call("DOM.getAttributes", nodeId=node)["attributes"] for node in found]
    tab.call("Emulation.setScriptExecutionDisabled", value=False)

    paths = [dict(zip(each[::2], each[1::2], strict=True))["d"] for each in before]
    assert [numbers(d) for d in paths] == [numbers(d) for row in after for d in row]


def numbers(path: str) -> list[object]:
    return [pytest.approx(float(number), abs=1) for number in re.findall(r"-?[\d.]+", path)]


@pytest.mark.parametrize("width", [400, 800, 1400])
@pytest.mark.parametrize("case", [drawn.joined, drawn.hostile, lambda: sample("synthetic-straggler")])
def test_nothing_is_wider_than_the_window(
    tab: Browser, tmp_path: Path, case: Callable[[], Diagnosis], width: int
) -> None:
    opened(tab, tmp_path, case(), width)
    tab.press("ArrowDown")
    tab.press("Enter")

    assert fits(tab, width)


BEYOND = """[...document.querySelectorAll('body *')]
    .filter(e => e.getBoundingClientRect().width && !e.closest('.scroll *, svg *, .sr, .skip'))
    .filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => `${e.tagName} ${e.className}`)"""


def fits(tab: Browser, width: int) -> bool:
    assert tab.complaints == []
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run(BEYOND) == []
    return True


@pytest.mark.skipif(not REAL, reason="set DIAGNOSE_REAL_TRACES to the folder with real traces")
@pytest.mark.parametrize(("width", "scheme"), [(400, "light"), (800, "dark"), (1400, "light")])
def test_the_page_of_eight_real_ranks_is_small_and_fits(tab: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    opened(tab, tmp_path, analyze(Path(REAL or "") / "dlrm-8xv100"), width, scheme)

    assert shown(tab) == [str(rank) for rank in range(8)]
    assert (tmp_path / "report.html").stat().st_size <= 500_000
    for rank in range(8):
        tab.run(f"document.querySelectorAll('#job-timeline .open')[{rank}].click()")
    assert tab.run("document.querySelectorAll('*').length") <= 8_000
    assert fits(tab, width)
