"""How long jobs ran: by the accounting, by the log of an armed run, by --hours, else a day of all of them."""

import json
from pathlib import Path

import pytest
from fleets import fleet_at, made_job, written

from diagnose.commands.fleet.views import headline
from diagnose.errors import UserError


def accounting(folder: Path, text: str) -> Path:
    path = folder / "jobs.csv"
    path.write_text(text)
    return path


def test_the_accounting_knows_jobs_by_slurm_number_place_or_name(tmp_path: Path) -> None:
    jobs = {"a/run": made_job(slurm="77"), "b/second": made_job(), "third": made_job(), "fourth": made_job()}
    table = "job,gpu_hours,label,gpu_hour_price\n77,100,nlp,2\nb/second,50,,\nthird,8,vision,3\n999,5,,\n"
    fleet = fleet_at(written(tmp_path, jobs), accounting(tmp_path, table))

    found = {job.name: (job.label, job.gpu_hours, job.price, job.hours_from) for job in fleet.jobs}
    assert found == {
        "77": ("nlp", 100.0, 200.0, "accounting"),
        "b/second": ("b", 50.0, None, "accounting"),
        "third": ("vision", 8.0, 24.0, "accounting"),
        "fourth": ("", None, None, ""),
    }
    assert (fleet.basis, fleet.gpu_hours, fleet.counted) == ("run", 158.0, 3)
    assert fleet.priced_share == pytest.approx(108 / 158)
    assert "1 job of unknown length: not counted; --accounting or --hours tells it" in fleet.notes
    assert "1 row of the accounting: of no job here" in fleet.notes


@pytest.mark.parametrize(
    ("names", "row", "spent", "note"),
    [
        ({"alice/run1": "", "bob/run1": ""}, "run1", [], "(run1): of several jobs here"),
        ({"u1/4711": "", "u2/x": "4711"}, "4711", ["4711"], ""),
        ({"run1": "", "bob/run1": ""}, "run1", ["run1"], ""),
    ],
)
def test_a_row_is_spent_once(tmp_path: Path, names: dict[str, str], row: str, spent: list[str], note: str) -> None:
    folder = written(tmp_path, {name: made_job(slurm=slurm) for name, slurm in names.items()})
    fleet = fleet_at(folder, accounting(tmp_path, f"job,gpu_hours\n{row},10\n"))

    assert [job.name for job in fleet.jobs if job.gpu_hours == 10.0] == spent
    assert [said for said in fleet.notes if "accounting" in said and "--" not in said] == (
        [f"1 row of the accounting {note}, and counted for none"] if note else []
    )


def test_of_two_rows_of_a_job_that_of_its_number_counts(tmp_path: Path) -> None:
    folder = written(tmp_path, {"a/run": made_job(slurm="77")})
    fleet = fleet_at(folder, accounting(tmp_path, "job,gpu_hours\na/run,5\n77,100\n"))

    assert fleet.gpu_hours == 100.0
    assert "1 row of the accounting (a/run): of a job that another row is of" in fleet.notes


def test_hours_that_are_stated_are_for_jobs_that_nothing_else_tells(tmp_path: Path) -> None:
    folder = written(tmp_path, {"a": made_job(), "b": made_job()})
    fleet = fleet_at(folder, accounting(tmp_path, "job,gpu_hours\na,100\n"), hours=2.0)

    assert {job.name: job.gpu_hours for job in fleet.jobs} == {"a": 100.0, "b": 16.0}


def test_an_accounting_of_labels_alone_leaves_the_hours_as_they_are(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"a": made_job()}), accounting(tmp_path, "job,label\na,nlp\n"))

    assert (fleet.basis, fleet.gpu_hours, fleet.jobs[0].label) == ("day", 192.0, "nlp")


def test_nothing_known_is_a_day_of_all_jobs(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"a": made_job(), "b": made_job(gpus_each=2)}))

    assert (fleet.basis, fleet.gpu_hours) == ("day", 24 * 10)
    assert fleet.notes[0].startswith("nothing says how long 2 jobs ran: GPU-hours are of a day")


def test_an_armed_run_tells_its_own_hours_and_its_windows_are_one_job(tmp_path: Path) -> None:
    run = tmp_path / "me" / "run"
    folder = written(run, {"step-10/diagnosis": made_job(), "step-90/diagnosis": made_job()})
    lines: list[object] = [{"armed": 1, "rank": 0, "world_size": 8, "host": "n1"}]
    lines += [{"s": 1 + 100 * i, "us": [36_000_000] * 100, "t": 1_780_000_000 + 3600 * (i + 1)} for i in range(3)]
    lines += [{"armed": 1, "rank": 0, "world_size": 8, "host": "n1"}]  # began again ten days later
    lines += [{"s": 301, "us": [36_000_000] * 100, "t": 1_780_900_000}]
    (folder / "rank0.steps").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    fleet = fleet_at(tmp_path)

    (job,) = fleet.jobs
    assert (job.name, job.label, job.windows, job.hours_from) == ("me/run", "me", 2, "armed run")
    assert job.hours == pytest.approx(4.0)
    assert fleet.gpu_hours == pytest.approx(32.0)


def test_no_hours_are_not_unknown_ones(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"a": made_job()}), accounting(tmp_path, "job,gpu_hours\na,0\n"))

    assert headline(fleet) == "1 job of 0 GPU-hours"


def test_a_job_without_a_gpu_has_no_gpu_hours(tmp_path: Path) -> None:
    fleet = fleet_at(written(tmp_path, {"a": made_job(device="CPU"), "b": made_job()}), hours=1.0)

    assert (fleet.counted, fleet.gpu_hours) == (1, 8.0)
    assert {job.name: job.because for job in fleet.jobs} == {"a": "it runs without a GPU", "b": ""}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("gpu_hours\n1\n", "row 2 names no job"),
        ("job,GPU hours\na,1\n", "it has a column of another name: GPU hours"),
        ("job,gpu_hours\na,1\na,2\n", "row 3 is of a job that another row is of: a"),
        ("job,gpu_hours\na,many\n", "gpu_hours of row 2 is no number from 0 on: many"),
        ("job,gpu_hours\na,-1\n", "gpu_hours of row 2 is no number"),
        ("job,gpu_hours\na,nan\n", "gpu_hours of row 2 is no number"),
        ("job,gpu_hour_price\na,1e300\n", "gpu_hour_price of row 2 is no number"),
    ],
)
def test_an_accounting_that_cannot_be_used_says_where(tmp_path: Path, table: str, why: str) -> None:
    with pytest.raises(UserError, match="cannot use the accounting") as error:
        fleet_at(written(tmp_path, {"a": made_job()}), accounting(tmp_path, table))

    assert why in error.value.why
