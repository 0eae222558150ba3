"""The pages of comparisons, tunes and snapshots in headless Chromium: they fit every window, and their bars add up."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browser
from compared_runs import SAMPLES, kernel, run

from diagnose.analysis import analyze
from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.html import comparison_page
from diagnose.commands.memory.html import memory_page
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import read
from diagnose.commands.tune.answer import DONE, Measured, Rung, Tuning
from diagnose.commands.tune.html import tuning_page
from diagnose.report.html import About, page
from diagnose.report.html.factors import axis_of

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]
ABOUT = About("1.2.3", "diagnose")
LONG = "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)"
CUT = """[...document.querySelectorAll('body *')]
    .filter(e => e.clientWidth && !e.closest('svg, .scroll, .sr') && e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => `${e.tagName} ${e.className}: ${e.textContent.trim().slice(0, 40)}`)"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def compared() -> Comparison:
    return compare(analyze(SAMPLES / "cpu-slow-loader.json.gz"), analyze(SAMPLES / "cpu-healthy.json.gz"))


def of_long_kernels() -> str:
    kernels = tuple(kernel(f"{LONG}{i}", 10 + i) for i in range(10))
    return comparison_page(compare(run(100, 101, 99, kernels=kernels), run(80, 81, 79)), ABOUT)


def of_twelve_runs() -> str:
    return tuning_page(tuned(), ABOUT)


def tuned() -> Tuning:
    """Twelve runs with the long names of settings, some without a prediction, some undone."""
    measured = Measured(gpus=1, micro_batch=1, seq_len=512, samples_per_s=3.2, step_ms=320.1)
    first = Rung(number=0, change="the job as it is", outcome="ok", decision="first", measured=measured)
    return Tuning(command=("train.py",), rungs=(first, *(_rung(number) for number in range(1, 12))), why_ended=DONE)


def _rung(number: int) -> Rung:
    achieved = (0.4, 0.44, 0.5) if number % 4 == 0 else (1.2, 1.3 + number / 4, 4.5)
    return Rung(
        number=number, rule="rule", change=f"per_device_train_batch_size={number}, gradient_accumulation_steps=16",
        outcome="ok", decision="rolled back" if achieved[1] < 1 else "kept", achieved=achieved, total=achieved,
        predicted=(1.1, 1.3 + 0.3 * number) if number % 3 else None,
    )  # fmt: skip


def of_a_failed_allocation() -> str:
    return memory_page(judged(read(SAMPLES / "dumps" / "synthetic-memory-oom.pickle")), ABOUT)


def opened(tab: Browser, folder: Path, text: str, width: int = 1400, scheme: str = "light") -> None:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    tab.open(path, width=width, scheme=scheme)


@pytest.mark.parametrize("width", [1400, 800, 400])
@pytest.mark.parametrize("text", [of_long_kernels, of_twelve_runs, of_a_failed_allocation])
def test_a_page_fits_its_window(tab: Browser, tmp_path: Path, text: Callable[[], str], width: int) -> None:
    opened(tab, tmp_path, text(), width, "dark" if width == 800 else "light")

    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run(CUT) == []
    assert tab.complaints == []
    assert [url for url in tab.requests if not url.startswith("file:")] == []


def test_at_twice_the_size_of_text_a_page_still_fits(tab: Browser, tmp_path: Path) -> None:
    opened(tab, tmp_path, of_long_kernels(), 700)  # a window of 1,400 pixels at 200 %

    assert tab.run("document.documentElement.scrollWidth") <= 700


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


def test_the_answer_stands_on_the_first_screen(tab: Browser, tmp_path: Path) -> None:
    """What is slow, what to do and how much it brings lie above the fold of a screen and of a phone."""
    found = analyze(SAMPLES / "synthetic-straggler")
    for width, fold in ((1400, 900), (400, 1400)):
        opened(tab, tmp_path, page(found, ABOUT), width)
        for part in ("h1", ".next h2", ".gainbar", ".next .gain"):
            assert tab.run(f"document.querySelector('{part}').getBoundingClientRect().bottom") < fold, (width, part)


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
