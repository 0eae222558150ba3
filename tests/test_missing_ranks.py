"""Which ranks there is no trace of, which files are copies, and which runs lie in one folder: told apart and said."""

import gzip
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from kineto import Trace as Job

from diagnose.analysis import analyze
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.report.views.words import spans
from diagnose.trace import find_run


def write(path: Path, rank: int, world: int, us: int = 40, steps: int = 3) -> Path:
    job = Job(rank=rank, world=world)
    for _ in range(steps):
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=us)
    job.write(path)
    return path


def ranks(folder: Path, *numbers: int, world: int = 8) -> Path:
    for rank in numbers:
        write(folder / f"rank{rank}.json", rank, world)
    return folder


def test_the_ranks_without_a_trace_are_named(tmp_path: Path) -> None:
    folder = ranks(tmp_path, 0, 1, 2, 5, 6)
    assert analyze(folder).trace.missing_ranks == (3, 4, 7)
    assert "missing       no trace of rank 3, 4, 7 of 8" in CliRunner().invoke(main, ["analyze", str(folder)]).stdout


def test_nothing_is_missing_from_a_whole_job(tmp_path: Path) -> None:
    folder = ranks(tmp_path, 0, 1, world=2)
    assert analyze(folder).trace.missing_ranks == ()
    assert "missing " not in CliRunner().invoke(main, ["analyze", str(folder)]).stdout


def test_a_world_that_cannot_be_is_not_counted_up_to(tmp_path: Path) -> None:
    for path in ranks(tmp_path, 0, 1).iterdir():
        path.write_text(path.read_text().replace('"world_size": 8', '"world_size": 999999999'))
    assert analyze(tmp_path).trace.missing_ranks == ()


def test_the_same_capture_packed_and_unpacked_is_read_once(tmp_path: Path) -> None:
    folder = ranks(tmp_path, 0, 1, world=2)
    copy = folder / "rank0.json.gz"
    copy.write_bytes(gzip.compress((folder / "rank0.json").read_bytes()))
    found = analyze(folder)
    assert [rank.rank for rank in found.ranks] == [0, 1]
    assert len(found.trace.files) == 2
    assert len(found.trace.copies) == 1
    assert "a copy of another file" in " ".join(CliRunner().invoke(main, ["analyze", str(folder)]).stdout.split())


def test_a_copy_under_another_name_is_a_copy(tmp_path: Path) -> None:
    folder = ranks(tmp_path, 0, 1, world=2)
    (folder / "backup of rank0.json").write_bytes((folder / "rank0.json").read_bytes())
    assert [file.rank for file in find_run(folder).files] == [0, 1]
    assert len(find_run(folder).copies) == 1


def test_two_captures_that_begin_with_the_same_long_head_are_two_runs(tmp_path: Path) -> None:
    folder = ranks(tmp_path, 0, 1, world=2)
    (folder / "rank1.json").unlink()
    text = (folder / "rank0.json").read_text().replace("{", '{"pg_config": "' + "0, " * 50_000 + '", ', 1)
    (folder / "rank0.json").write_text(text)
    (folder / "rank0.1700000000000.json").write_text(text.replace('"ts": 7', '"ts": 8'))
    with pytest.raises(UserError, match="2 runs in one folder"):
        find_run(folder)


def test_of_a_file_and_its_beginning_the_file_is_read(tmp_path: Path) -> None:
    whole = write(tmp_path / "rank0.json", 0, 1, steps=100)
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(whole.read_bytes())[:-500])
    run = find_run(tmp_path)
    assert [file.path for file in run.files] + list(run.copies) == [whole, tmp_path / "rank0.json.gz"]


def test_two_files_of_one_rank_are_two_runs_and_the_error_names_the_rank(tmp_path: Path) -> None:
    folder = ranks(tmp_path, 0, 1, world=2)
    write(folder / "again_rank1.json", 1, 2, us=90)
    with pytest.raises(
        UserError, match=r"(?s)2 runs in one folder.*of rank 1 there is more than one file.*--run again"
    ):
        find_run(folder)


def test_jobs_of_different_sizes_are_different_runs(tmp_path: Path) -> None:
    write(tmp_path / "a.json", 0, 2)
    write(tmp_path / "b.json", 1, 2)
    write(tmp_path / "c.json", 2, 4)
    with pytest.raises(UserError, match=r"(?s)they state jobs of 2 and 4 ranks.*@2  \(2 file.*@4  \(1 file"):
        find_run(tmp_path)


def test_numbers_in_words() -> None:
    assert spans([1, 4, 5, 6, 7, 9, 10]) == "1, 4-7, 9, 10"
    assert spans([]) == ""


def test_the_command_lists_them_in_its_json(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["analyze", str(ranks(tmp_path, 1, 2, world=4)), "--json"])
    assert json.loads(done.stdout)["trace"]["missing_ranks"] == [0, 3]
