"""The page of `diagnose memory`: one file, its chart and tables drawn from the answer, every text escaped."""

import pickle
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from diagnose.cli import main
from diagnose.commands.memory.html import memory_page
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import read
from diagnose.commands.memory.views import HEIGHT, WIDTH, curve
from diagnose.report.views.summary import About

OOM = Path(__file__).parents[2] / "sample_traces" / "dumps" / "synthetic-memory-oom.pickle"


def test_the_page_has_the_findings_the_chart_and_who_has_the_peak() -> None:
    answer = judged(read(OOM))

    page = memory_page(answer, About("1.0", "diagnose memory FILE"))

    assert "60.0 MiB were wanted, and 112.0 MiB of 280.0 MiB reserved were free" in page
    assert 'aria-label="Memory in use and reserved over 192 recorded actions; at most 240.0 MiB in use"' in page
    assert re.search(r"activations</th><td class=\"number\">144.0 MiB</td><td class=\"number\">60.0 %", page)
    assert "http" not in page.replace("http-equiv", "")
    assert '<path class="reserved"' in page, "reserved is a line, of no colour that a category has"


def test_the_chart_is_as_high_as_what_was_reserved_and_marks_the_peak() -> None:
    """280 MiB reserved fill it, the peak of 240 MiB lies 1/7 below."""
    (device,) = judged(read(OOM)).devices

    assert device.usage is not None
    drawn = curve(device.usage)

    assert drawn.grid[0] == (0.0, "280.0 MiB")
    assert drawn.peak_y == round(HEIGHT / 7, 1)
    assert 0.8 * WIDTH < drawn.peak_x < 0.9 * WIDTH
    assert drawn.reserved.endswith(f"H{WIDTH}V{HEIGHT}Z")


def test_the_axis_is_of_time_if_the_actions_have_times_else_of_actions() -> None:
    (device,) = judged(read(OOM)).devices
    assert device.usage is not None

    timed, counted = curve(device.usage), curve(replace(device.usage, border_us=()))

    assert (timed.is_timed, timed.first, timed.last) == (True, "0 ns", "1.3 ms")
    assert (counted.is_timed, counted.first, counted.last) == (False, "action 0", "action 192")
    for drawn in (timed, counted):
        assert sum(moment.width for moment in drawn.moments) == pytest.approx(WIDTH, abs=1)
        assert [moment.in_use for moment in drawn.moments if moment.x <= drawn.peak_x][-1] == "240.0 MiB"


def test_a_pause_is_as_wide_as_it_is_long(tmp_path: Path) -> None:
    """One of a hundred actions comes after as long a time as all others took."""
    frames = [{"filename": "/home/me/train.py", "line": 3, "name": "f"}]
    entries = [
        {"action": "alloc", "addr": 512 * i, "size": 512, "time_us": 1000 + i + (99 if i > 49 else 0), "frames": frames}
        for i in range(100)
    ]
    (tmp_path / "paused.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": [entries]}))

    (device,) = judged(read(tmp_path / "paused.pickle")).devices
    assert device.usage is not None
    assert curve(device.usage).moments[49].width == pytest.approx(WIDTH / 2, rel=0.02)


def test_the_categories_add_up_to_what_is_in_use_at_each_moment() -> None:
    (device,) = judged(read(OOM)).devices
    assert device.usage is not None

    stacked = [sum(parts) for parts in zip(*(row.bytes for row in device.usage.by_category), strict=True)]
    assert stacked == list(device.usage.allocated_bytes)


def test_a_snapshot_without_a_history_has_no_chart() -> None:
    answer = judged(read(OOM))
    (device,) = answer.devices

    page = memory_page(replace(answer, devices=(replace(device, usage=None, peak_bytes=None),)), About("1.0"))

    assert "<figure" not in page
    assert "168.0 MiB" in page


def test_names_of_a_snapshot_are_escaped(tmp_path: Path) -> None:
    text = OOM.read_bytes().replace(b"/home/me/train.py", b"/home/<script>.py")
    (tmp_path / "snapshot.pickle").write_bytes(text)

    page = memory_page(judged(read(tmp_path / "snapshot.pickle")), About("1.0"))

    assert "<script" not in page
    assert "&lt;script&gt;.py:31" in page


def test_the_command_writes_the_page_beside_what_it_prints(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["memory", str(OOM), "--html", str(tmp_path / "page.html")])

    assert done.exit_code == 0
    assert "verdict   out of memory" in done.stdout
    assert "diagnose memory" in (tmp_path / "page.html").read_text()


def test_the_snapshot_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "snapshot.pickle"
    file.write_bytes(OOM.read_bytes())

    done = CliRunner().invoke(main, ["memory", str(file), "--html", str(file)])

    assert done.exit_code == 2
    assert file.read_bytes() == OOM.read_bytes()
