"""Which files a dataset reads, and how much of them a sample takes."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from diagnose.probes.pipeline.files_read import ReadCounters, files_of, is_of_data
from diagnose.probes.pipeline.storage import storage

SIZE = 40_000


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Four files of `SIZE` bytes."""
    paths = [tmp_path / f"{number}.bin" for number in range(4)]
    for path in paths:
        path.write_bytes(bytes(SIZE))
    return list(map(str, paths))


def read(files: list[str], samples: int, each: int) -> ReadCounters:
    """Counters after so many samples, each of which opened a file and read so many bytes."""
    counters = ReadCounters()
    counters.begin()
    for number in range(samples):
        with open(files[number % len(files)], "rb", buffering=0) as file:
            file.read(each)
    counters.end(samples)
    return counters


def test_what_python_opens_to_read_counts_and_what_it_writes_does_not(files: list[str], tmp_path: Path) -> None:
    counters = ReadCounters()
    counters.begin()
    Path(files[0]).read_bytes()
    (tmp_path / "written").write_text("")
    counters.end(1)
    Path(files[1]).read_bytes()

    assert counters.opened == {files[0]: 1}


def test_code_and_what_the_kernel_makes_up_is_no_data(tmp_path: Path) -> None:
    assert not any(map(is_of_data, ("/proc/self/stat", "/dev/null", str(tmp_path / "a.py"), np.__file__)))
    assert is_of_data(str(tmp_path / "a.jpg"))


def test_files_that_datasets_hold_open_are_found_inside_others(files: list[str]) -> None:
    mapped = np.memmap(files[0], dtype=np.uint8, mode="r")
    with open(files[1], "rb") as file:
        inner = SimpleNamespace(array=mapped, text="data", file=file)
        found = files_of(SimpleNamespace(dataset=SimpleNamespace(datasets=[inner])))

    assert found == files[:2]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts what a process reads")
def test_whole_files_are_read_where_a_sample_is_one_and_pieces_where_it_is_less(files: list[str]) -> None:
    whole = storage(read(files, 8, SIZE), None, None, False, 1.0)
    pieces = storage(read(files, 8, 1000), None, None, False, 1.0)
    in_order = storage(read(files, 8, 1000), None, None, True, 1.0)

    assert (whole["order"], whole["warm"]["bytes"] / whole["warm"]["samples"]) == ("whole files", SIZE)
    assert pieces["order"] == "at random places"
    assert pieces["warm"]["bytes"] / pieces["warm"]["samples"] == pytest.approx(1000, rel=0.1)
    assert in_order["order"] == "in order"


def test_without_files_it_is_said_why() -> None:
    assert storage(ReadCounters(), None, None, False, 1.0)["because"].startswith("the dataset was seen reading no file")
