"""Both sides of each threshold of a measured input, in numbers."""

from typing import Any

import pytest
from data_pipeline.measurements import MS, made, spent

from diagnose.commands.data.judge import lock_of, report_of
from diagnose.commands.data.question import LoaderQuestion


def stage(name: str, **parts: Any) -> Any:
    return next(one for one in report_of(made(**parts), LoaderQuestion()).stages if one.name == name)


@pytest.mark.parametrize(("cold", "smallest"), [(195, "storage, cold"), (205, "dataset")])
def test_a_dataset_waits_for_files_that_are_read_no_more_than_twice_as_fast(cold: float, smallest: str) -> None:
    """A dataset of 100 samples per second that mostly waits."""
    read = {"samples": cold, "bytes": 1000, "wall_ns": 1000 * MS}
    storage = {"files": 9, "order": "shuffled", "cold": read, "warm": read}

    assert report_of(made(fetch=spent(50, [100.0] * 5, 0.1), storage=storage), LoaderQuestion()).smallest == smallest


@pytest.mark.parametrize(
    ("samples", "work", "named"),
    [(100, 21, "decode"), (100, 19, ""), (10, 10, "decode"), (9, 9, "")],
)
def test_a_kind_of_work_names_a_stage_that_has_a_fifth_of_ten_samples(samples: int, work: int, named: str) -> None:
    stacks = {"samples": samples, "work": {"decode": work}, "functions": []}

    assert stage("dataset", stacks={"fetch": stacks, "collate": stacks}).work == named


@pytest.mark.parametrize(("together", "held"), [(125, "held"), (135, "partly"), (165, "partly"), (175, "free")])
def test_the_lock_is_held_below_a_core_and_a_third_and_free_from_one_and_seven_tenths(together: int, held: str) -> None:
    lock = {
        "in_python": {"wall_ns": 100, "loading_ns": 50, "beside_ns": together - 50},
        "without_lock": {"wall_ns": 100, "loading_ns": 100, "beside_ns": 100},
    }

    assert lock_of(made(lock=lock), 1.0)[0] == held


@pytest.mark.parametrize(("queued_ms", "busy"), [(110, True), (95, False)])
def test_a_host_is_busy_that_has_no_core_for_a_fifth_of_the_time(queued_ms: int, busy: bool) -> None:
    """Of 505 ms in process."""
    fetch = spent(50, [100.0] * 5, 0.5, queued_ns=queued_ms * MS)

    assert any("the host is busy" in note for note in report_of(made(fetch=fetch), LoaderQuestion()).notes) is busy


@pytest.mark.parametrize(("samples", "told"), [(205, True), (195, False)])
def test_two_hundred_samples_say_what_other_batching_gains(samples: int, told: bool) -> None:
    lengths = {
        "samples": [10 + at % 90 for at in range(samples)],
        "batches": [(5, 100)] * (samples // 5),
        "because": "",
    }
    padding = report_of(made(lengths=lengths), LoaderQuestion()).padding

    assert any(gain.because == "" for gain in padding.gains) is told
