"""A job is counted once, whatever tells of it; what cannot be read is named, and costs only itself."""

import errno
import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fleets import fleet_at, made_job, written
from msgspec.structs import replace

from diagnose import analysis
from diagnose.analysis import analyze
from diagnose.commands.fleet.reading import read_fleet
from diagnose.commands.fleet.tree import tree_at
from diagnose.errors import UserError

SAMPLES = Path(__file__).parents[2] / "sample_traces"


@pytest.mark.long
def test_folder_diagnosis_copy_and_one_rank_are_one_job(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "17"
    shutil.copytree(SAMPLES / "synthetic-straggler", run)
    whole, one = analyze(run), analyze(run, options=analysis.Options(rank=3))
    written(tmp_path / "json", {"a": one, "b": whole, "c/again": replace(whole, rank=None)})

    fleet = fleet_at(tmp_path)

    assert len(fleet.jobs) == 1
    assert (fleet.diagnoses, fleet.analysed, fleet.repeats) == (3, 1, 3)
    assert fleet.jobs[0].source == "json/b.json", "the whole job, and the first file that tells it"
    assert fleet.jobs[0].gpus == 8


@pytest.mark.long
def test_a_run_with_its_diagnosis_beside_it_is_not_analysed(tmp_path: Path) -> None:
    run = tmp_path / "me" / "17"
    shutil.copytree(SAMPLES / "synthetic-straggler", run)
    (run / "diagnosis.json").write_text(analyze(run).to_json())

    fleet = fleet_at(tmp_path)

    assert (fleet.diagnoses, fleet.analysed) == (1, 0)
    assert (fleet.jobs[0].name, fleet.jobs[0].label) == ("me/17", "me")


def test_some_steps_of_a_trace_are_no_job_beside_it(tmp_path: Path) -> None:
    whole, others = made_job(), made_job()
    ranks = tuple(replace(rank, steps=1) for rank in others.ranks)
    step = replace(others, ranks=ranks, trace=replace(whole.trace, files=("/elsewhere/t.json",)))
    fleet = fleet_at(written(tmp_path, {"a-step": step, "whole": whole, "z-step": step}), hours=1.0)

    assert [(job.source, job.gpu_hours) for job in fleet.jobs] == [("whole.json", 8.0)]
    assert fleet.repeats == 2


def test_the_second_window_of_a_run_is_no_job_of_its_own(tmp_path: Path) -> None:
    run = tmp_path / "me" / "17"
    (run / "step-40").mkdir(parents=True)
    shutil.copy(SAMPLES / "synthetic-tiny-kernels.json.gz", run / "rank0.json.gz")
    shutil.copy(SAMPLES / "synthetic-compute-bound.json.gz", run / "step-40" / "rank0.json.gz")

    fleet = fleet_at(tmp_path)

    assert [job.name for job in fleet.jobs] == ["me/17"]
    assert fleet.analysed == 1


def test_runs_beside_each_other_are_jobs_of_their_own(tmp_path: Path) -> None:
    for name in ("synthetic-tiny-kernels", "synthetic-compute-bound"):
        shutil.copy(SAMPLES / f"{name}.json.gz", tmp_path)

    fleet = fleet_at(tmp_path)

    assert sorted(job.name for job in fleet.jobs) == ["synthetic-compute-bound", "synthetic-tiny-kernels"]
    assert fleet.analysed == 2


def test_jobs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"x": made_job(), "x/diagnosis": made_job()}))

    assert {job.name for job in fleet.jobs} == {"x (x.json)", "x (x/diagnosis.json)"}
    assert [row.jobs for row in fleet.groups if row.kind in ("gpu", "host")] == [2, 2]


def test_windows_of_a_slurm_job_share_its_hours(tmp_path: Path) -> None:
    jobs = {
        "w1": made_job(slurm="77", causes={"data-wait": 0.2}, began="2026-08-01T00:00:00Z"),
        "w2": made_job(slurm="77", causes={"data-wait": 0.4}, began="2026-08-03T00:00:00Z"),
    }
    fleet = fleet_at(written(tmp_path, jobs), hours=5.0)

    job = fleet.jobs[0]
    assert (len(fleet.jobs), job.name, job.windows, job.gpu_hours) == (1, "77", 2, 40.0)
    assert job.lost_share == pytest.approx(0.3)
    assert {(row.day, round(row.share, 6)) for row in fleet.days} == {("2026-08-01", 0.2), ("2026-08-03", 0.4)}


def test_what_cannot_be_read_is_named_and_the_rest_counts(tmp_path: Path) -> None:
    folder = written(tmp_path, {"good": made_job(), "old": replace(made_job(), schema_version=1)})
    whole = (folder / "good.json").read_bytes()
    (folder / "cut.json").write_bytes(whole[: len(whole) // 2])
    (folder / "no-step.json").write_text(replace(made_job(), ranks=()).to_json())
    (folder / "comparison.json").write_text('{"schema_version": 1, "verdict": "better"}')
    (folder / "deep.json").write_text('{"schema_version": ' + "[" * 100_000)
    (folder / "notes.txt").write_text("not ours")

    fleet = fleet_at(folder)

    assert [job.name for job in fleet.jobs] == ["good"]
    assert {entry.file: entry.why[:24] for entry in fleet.unread} == {
        "cut.json": "Input data was truncated",
        "deep.json": "Expected `int`, got `arr",
        "no-step.json": "no step was counted in i",
        "old.json": "its schema_version is 1,",
    }


def test_a_diagnosis_counts_with_a_byte_order_mark_and_packed(tmp_path: Path) -> None:
    folder = written(tmp_path, {"marked": made_job(), "packed": made_job()})
    (folder / "marked.json").write_bytes(b"\xef\xbb\xbf" + (folder / "marked.json").read_bytes())
    (folder / "packed.json.gz").write_bytes(gzip.compress((folder / "packed.json").read_bytes()))
    (folder / "packed.json").unlink()

    fleet = fleet_at(folder)

    assert ([job.name for job in fleet.jobs], fleet.unread) == (["marked", "packed"], ())


def test_a_json_file_that_nobody_can_read_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, {"good": made_job(), "wide": made_job()})
    (folder / "wide.json").write_text((folder / "wide.json").read_text(), encoding="utf-16")
    (folder / "none.json").touch()
    (folder / "prose.json").write_text("Traceback (most recent call last):")
    (folder / "settings.json").write_text('{"not": "ours"}')

    fleet = fleet_at(folder)

    assert [job.name for job in fleet.jobs] == ["good"]
    assert {entry.file: entry.why for entry in fleet.unread} == {
        "none.json": "it is empty",
        "prose.json": "it is not JSON",
        "wide.json": "it is not UTF-8",
    }


def test_a_diagnosis_in_another_order_that_is_cut_short_is_named(tmp_path: Path) -> None:
    folder = written(tmp_path, {"good": made_job(), "sorted": made_job()})
    turned = json.dumps(json.loads((folder / "sorted.json").read_text()), sort_keys=True).encode()
    (folder / "sorted.json").write_bytes(turned)
    (folder / "cut.json").write_bytes(turned[: len(turned) // 2])
    (folder / "packed.json.gz").write_bytes(gzip.compress(turned[: len(turned) // 2]))
    (folder / "torn.json.gz").write_bytes(gzip.compress(turned)[:-200])
    (folder / "spoilt.json").write_bytes(turned.replace(b'"schema_version":', b'"schema_version";'))
    (folder / "others.json").write_text('{"loss": NaN}')
    (folder / "lines.json").write_text('{"loss": 1}\n{"loss": 2}\n')

    fleet = fleet_at(folder)

    assert [job.name for job in fleet.jobs] == ["good", "sorted"]
    assert {entry.file: entry.why[:24] for entry in fleet.unread} == {
        "cut.json": "Input data was truncated",
        "packed.json.gz": "Input data was truncated",
        "spoilt.json": "JSON is malformed: expec",
        "torn.json.gz": "Input data was truncated",
    }


@pytest.mark.long
def test_a_torn_file_beside_a_run_is_named_and_costs_it_nothing(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "synthetic-straggler", tmp_path / "run")
    (tmp_path / "run" / "mine.json.gz").write_bytes(gzip.compress(made_job().to_json().encode())[:-200])

    fleet = fleet_at(tmp_path)

    assert [job.name for job in fleet.jobs] == ["run"]
    assert [(entry.file, entry.why) for entry in fleet.unread] == [("run/mine.json.gz", "Input data was truncated")]


def test_what_may_not_be_read_costs_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(tmp_path, {"good": made_job(), "a/mine": made_job(), "b/job": made_job(), "c/job": made_job()})
    for refused, called in ((folder / "a" / "mine.json", "open"), (folder / "b" / "job.json", "stat")):
        monkeypatch.setattr(Path, called, refusing(getattr(Path, called), refused))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir, folder / "c"))

    fleet = fleet_at(folder)

    assert [job.name for job in fleet.jobs] == ["good"]
    assert {entry.file: entry.why.rpartition(": ")[2] for entry in fleet.unread} == dict.fromkeys(
        ("a/mine.json", "b/job.json", "c"), "Permission denied"
    )


def refusing(action: Callable[..., Any], place: Path) -> Callable[..., Any]:
    """The action, as it is where the user may not do it to that place; root may do everything."""

    def refused(path: Any, *given: Any, **named: Any) -> Any:
        if str(path) == str(place):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return action(path, *given, **named)

    return refused


@pytest.mark.long
def test_a_damaged_trace_costs_its_own_run_alone(tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "synthetic-straggler", tmp_path / "sound")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "rank0.json").write_text('{"traceEvents": []}')

    fleet = fleet_at(tmp_path)

    assert [job.name for job in fleet.jobs] == ["sound"]
    assert [entry.file for entry in fleet.unread] == ["empty"]


def test_nothing_at_all_is_the_users_to_know(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing in it is a diagnosis"):
        fleet_at(tmp_path)


def test_one_file_at_a_time_is_open_and_none_is_kept(tmp_path: Path) -> None:
    folder = written(tmp_path, {f"job{number}": made_job() for number in range(5)})
    tree: Any = tree_at(str(folder))
    here, open_now, most = tree.here, [0], [0]

    @contextmanager
    def counted(place: str) -> Iterator[Path]:
        open_now[0] += 1
        most[0] = max(most[0], open_now[0])
        with here(place) as path:
            yield path
        open_now[0] -= 1

    tree.here = counted
    read = read_fleet(tree, analysis.Options())

    assert most == [1]
    assert len(read.windows) == 5
    assert all("Diagnosis" not in type(value).__name__ for window in read.windows.values() for value in vars_of(window))


def vars_of(window: object) -> list[object]:
    return [getattr(window, name) for name in type(window).__dataclass_fields__]  # type: ignore[attr-defined]


@pytest.mark.long
def test_a_fleet_at_a_url_is_that_of_its_folder(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    written(tmp_path, {"a": made_job(), "me/b": made_job()})
    shutil.copytree(SAMPLES / "synthetic-straggler", tmp_path / "me" / "17")
    files = fsspec.filesystem("memory")
    files.put(str(tmp_path) + "/", "/fleet", recursive=True)
    try:
        there, here = fleet_at("memory://fleet"), fleet_at(tmp_path)
    finally:
        files.rm("/fleet", recursive=True)

    assert [(job.name, job.label, job.lost_share) for job in there.jobs] == [
        (job.name, job.label, job.lost_share) for job in here.jobs
    ]
    assert (there.source, there.causes) == ("memory://fleet", here.causes)
