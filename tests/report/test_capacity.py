"""The memory ledger in words: what the plan and the optimizer leave of it, and why nothing is counted."""

import counted_memory
import diagnoses
import pytest
from msgspec.structs import replace
from report.printed import printed

from diagnose.diagnosis import Diagnosis, FactReport
from diagnose.diagnosis.capacity import Capacity, MemoryPart
from diagnose.report.html.capacity import capacity_section
from diagnose.report.views.capacity import capacity_view

NOT_COUNTED = Capacity(because="the trace comes without a capture record")


def job(capacity: Capacity, trains: bool | None = True, **facts: float | bool) -> Diagnosis:
    values = {"has_gpu": True, **facts}.items()
    known = tuple(FactReport(name=name, value=value, unit="count") for name, value in values)
    return replace(diagnoses.data_bound(), capacity=capacity, trains=trains, facts=known)


def rows(caption: str) -> list[tuple[str, ...]]:
    view = capacity_view(job(counted_memory.CAPACITY))
    assert view is not None
    return next(table.rows for table in view.tables if table.caption.startswith(caption))


def test_a_change_of_the_plan_stands_with_what_it_leaves() -> None:
    more, unknown = rows("With the changes")
    assert more[1:] == ("47.0 GiB, 2.0 GiB more", "8 (7 to 9)")
    assert unknown == ("launch-bound", "unknown: torch.compile decides what is kept for the backward pass", "unknown")


def test_a_change_that_needs_more_than_there_is_does_not_fit() -> None:
    count = counted_memory.COUNTED
    view = capacity_view(job(Capacity(counted=replace(count, device_bytes=46 << 30))))
    assert view is not None
    assert view.tables[1].rows[0][1] == "47.0 GiB, 2.0 GiB more; by the count it does not fit"
    assert view.lines[0].endswith("98 % of the device's 46.0 GiB: 1.0 GiB are left")


@pytest.mark.parametrize(
    ("seen_gib", "miss", "says"),
    [
        (80, -0.5, "40.0 GiB that torch allocated are not counted (another model, results that are kept, a longer "
                   "batch); only the low ends of the ranges below hold"),
        (20, 1.0, "20.0 GiB are counted that torch never allocated (less is kept for the gradients than the sizes "
                  "tell); only the high ends of the ranges below hold"),
    ],
)  # fmt: skip
def test_a_count_far_from_the_recorded_peak_says_so_and_leaves_no_room(seen_gib: int, miss: float, says: str) -> None:
    far = replace(counted_memory.COUNTED, recorded_allocated_bytes=seen_gib << 30, allocated_miss=miss)
    view = capacity_view(job(Capacity(counted=far)))
    assert view is not None
    assert says in view.lines
    assert view.lines[0].endswith("56 % of the device's 80.0 GiB")


def test_each_optimizer_says_what_it_does_to_training() -> None:
    assert rows("States") == [
        ("AdamW, as it is", "8", "10.0 GiB", "9 (8 to 10)", "the same"),
        ("8-bit AdamW", "2.031", "2.5 GiB", "12 (11 to 14)", "rounds the states"),
    ]


def test_what_is_not_counted_says_why_and_what_torch_left() -> None:
    view = capacity_view(job(NOT_COUNTED, memory_peak_bytes=20 << 30, memory_total_bytes=80 << 30))
    assert view is not None
    assert view.lines == [
        "not counted: the trace comes without a capture record",
        "torch reserved 20.0 GiB of the device's 80.0 GiB at most: 60.0 GiB are left",
    ]


def test_nobody_asks_what_a_job_that_trains_nothing_takes() -> None:
    assert capacity_view(job(NOT_COUNTED, trains=False)) is None
    assert capacity_view(job(NOT_COUNTED, has_gpu=False)) is None


def test_the_details_fit_a_narrow_terminal() -> None:
    page = printed(job(counted_memory.CAPACITY), width=60, details=True)
    assert "memory  " in page
    assert max(map(len, page.splitlines())) <= 60


def test_the_bar_of_the_page_stands_for_each_part_and_the_recorded_peak() -> None:
    section = capacity_section(job(counted_memory.CAPACITY))

    count = counted_memory.COUNTED
    assert section is not None
    assert section.bar is not None
    assert sum(part.bytes for part in section.bar.parts) == sum(part.bytes for part in count.parts)
    assert [part.key for part in section.bar.parts] == sorted(part.key for part in section.bar.parts)
    ends = [part.x + part.width for part in section.bar.parts]
    assert [part.x for part in section.bar.parts[1:]] == pytest.approx(ends[:-1])
    assert ends[-1] == pytest.approx(100 * sum(part.bytes for part in count.parts) / count.device_bytes)
    assert section.bar.peak == pytest.approx(100 * count.recorded_allocated_bytes / count.device_bytes)


def test_a_job_that_does_not_fit_is_wider_than_its_device() -> None:
    parts = (MemoryPart(name="weights", bytes=30 << 30, transient=False),)
    tight = replace(counted_memory.COUNTED, parts=parts, total_bytes=30 << 30, device_bytes=20 << 30)
    section = capacity_section(job(Capacity(counted=replace(tight, recorded_allocated_bytes=None))))

    assert section is not None
    assert section.bar is not None
    assert section.bar.device == pytest.approx(100 * 2 / 3)
    assert [(part.x, part.width) for part in section.bar.parts] == [(0.0, 100.0)]
    assert section.bar.peak is None


def test_without_a_count_there_is_no_bar() -> None:
    section = capacity_section(job(NOT_COUNTED))

    assert section is not None
    assert section.bar is None
