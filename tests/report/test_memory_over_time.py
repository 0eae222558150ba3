"""Memory over the window on the page: the peak of the answer, what is reserved, the steps and the ledger's parts."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browser
from kineto import Trace
from msgspec.structs import replace
from report.memory_job import COUNTED_STEPS, GIB, HELD, PARTS, PEAK, RESERVED, job_with_memory, traced
from report.pages import Read, sample, written

from diagnose.analysis import analyze
from diagnose.diagnosis import MemoryOverTime
from diagnose.report.html.memory_over_time import BOTTOM, TOP, memory_drawing


def over_time(job: Trace, folder: Path) -> MemoryOverTime | None:
    return analyze(job.write(folder / "rank0.json")).memory_over_time


def test_every_extreme_and_each_step_is_in_the_answer(tmp_path: Path) -> None:
    memory = over_time(traced(), tmp_path)

    assert memory is not None
    assert (memory.rank, memory.device, len(memory.steps)) == (0, 0, COUNTED_STEPS)
    assert (memory.peak_bytes, max(memory.most_bytes), min(memory.least_bytes)) == (PEAK, PEAK, HELD)
    assert memory.reserved_bytes is not None
    assert (max(memory.reserved_bytes), min(memory.reserved_bytes)) == (RESERVED, RESERVED - 2 * GIB)
    assert memory.most_bytes[memory.peak_ns // memory.piece_ns] == PEAK
    assert memory.step_ns[2] < memory.peak_ns < memory.step_ns[3]
    assert all(low <= high for low, high in zip(memory.least_bytes, memory.most_bytes, strict=True))


def test_what_was_held_goes_on_where_nothing_is_allocated(tmp_path: Path) -> None:
    job = Trace()
    with job.step():
        job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
        for size in (1, 2, 3, 4, 5, 6, 7, 9):
            job.host(2000)
            job.memory(GIB, size * GIB, 9 * GIB)
        job.host(100_000)
        job.memory(-8 * GIB, GIB, 9 * GIB)
    memory = over_time(job, tmp_path)

    assert memory is not None
    middle = len(memory.most_bytes) // 2
    assert memory.least_bytes[middle] == memory.most_bytes[middle] == 9 * GIB
    assert (memory.least_bytes[-1], memory.most_bytes[-1]) == (GIB, 9 * GIB)


def test_without_totals_there_is_no_picture() -> None:
    diagnosis = sample("synthetic-memory-bound.json.gz")

    assert diagnosis.memory_over_time is None
    assert memory_drawing(diagnosis) is None
    assert "Memory over time" not in Read(written(diagnosis)).shown


def test_parts_of_the_ledger_are_levels_one_on_the_other() -> None:
    drawing = memory_drawing(job_with_memory())

    assert drawing is not None
    assert [(level.name, level.bytes // GIB) for level in drawing.levels] == [
        ("optimizer states", 5), ("weights", 9), ("gradients", 11)
    ]  # fmt: skip
    heights = [level.y for level in drawing.levels]
    assert BOTTOM > heights[0] > heights[1] > heights[2] > drawing.peak[1] > TOP


def test_the_hosts_memory_says_since_when_it_counts(tmp_path: Path) -> None:
    told = job_with_memory()
    assert told.memory_over_time is not None
    host = replace(told, memory_over_time=replace(told.memory_over_time, device=None, reserved_bytes=None))
    drawing = memory_drawing(host)

    assert drawing is not None
    assert (drawing.levels, drawing.reserved) == ([], "")
    assert drawing.says.startswith("The host's memory that was taken since the profiler began: at most 33.0 GiB, ")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.html").write_text(written(job_with_memory()), encoding="utf-8")
    with browser(folder / "profile") as opened:
        opened.open(folder / "page.html", width=400)
        yield opened


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_the_drawing_has_the_numbers_of_the_answer(tab: Browser) -> None:
    inside = "document.querySelector('#memory-over-time"

    assert tab.run(f"{inside} .peak').dataset.bytes") == str(PEAK)
    assert tab.run("[...document.querySelectorAll('.held .level')].map(line => line.dataset.part)") == [*PARTS][:3]
    assert tab.run("document.querySelectorAll('.held .begins line').length") == COUNTED_STEPS
    top = f"{inside} .reserved').getBoundingClientRect().top"
    assert tab.run(f"{top} < {inside} path.memory').getBoundingClientRect().top")
    assert "33.0 GiB" in tab.run(f"{inside} tr:has(.fine)').textContent")
    assert tab.complaints == []


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")
def test_arrow_keys_go_on_in_time(tab: Browser) -> None:
    told = "document.querySelector('.held .details').textContent"
    tab.run("document.querySelector('.held .point').focus()")
    first = tab.run(told)
    key = {"key": "ArrowRight", "bubbles": True}
    tab.run(f"document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {json.dumps(key)}))")

    assert first.startswith("0 ns: ")
    assert "in use" in tab.run(told)
    assert tab.run(told) != first
