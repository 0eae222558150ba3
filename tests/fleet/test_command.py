"""`diagnose fleet` as it is called: text, page, tables and JSON of made-up jobs, and how it ends."""

import csv
import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from fleets import fleet_at, made_job, written

from diagnose.cli import main
from diagnose.commands.fleet.answer import Fleet
from diagnose.commands.fleet.html import days_view, fleet_page
from diagnose.commands.fleet.tables import fleet_tables
from diagnose.report.views.summary import About
from diagnose.report.views.words import cause_name


def fleet(*args: object) -> Result:
    return CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(main, ["fleet", *map(str, args)])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    hosts = ("n1", "n2", "n3", "n4")
    jobs = {
        f"nlp/{i}": made_job(
            hosts, 2, late="n2", causes={"data-wait": 0.2}, plan=[("data-wait", (1.1, 1.25))],
            began=f"2026-08-{i + 1:02}T00:00:00Z",
        )
        for i in range(9)
    }  # fmt: skip
    folder = written(tmp_path / "fleet", jobs | {"vision/z": made_job(causes={"dispatch": 0.5}, device="NVIDIA A10")})
    (folder / "broken.json").write_text('{"schema_version": 4')
    return folder


def test_the_text_says_what_is_lost_what_to_change_and_which_host_it_is(folder: Path) -> None:
    done = fleet(folder, "--hours", "10h", "--gpu-hour-price", "2")
    told = " ".join(done.output.split())

    assert done.exit_code == 0
    for words in (
        "184 of 800 GPU-hours are lost (23.0 %)",
        "cost 368 at the stated prices",
        "data wait 144 18.0 % 9 288",
        "do data-wait 9 65.5 to 144",
        "1 host at fault in more jobs than chance, of 4 hosts by late ranks",
        "n2: in 9 of 9 jobs the late rank is on it; chance would give 2.2",
        "2026-08-01 to 2026-08-09",
        "NVIDIA A10 1 80.0 40.0 50.0 %",
        "not read broken.json: Input data was truncated",
        "read 10 files with a diagnosis; 1 cannot be used",
    ):
        assert words in told


@pytest.mark.parametrize("columns", ["40", "72", "200"])
def test_no_line_is_wider_than_the_terminal(folder: Path, columns: str) -> None:
    done = CliRunner(env={"COLUMNS": columns}).invoke(main, ["fleet", str(folder), "--details"])

    assert max(map(len, done.stdout.splitlines())) <= int(columns)


def test_the_json_is_as_its_schema_says(folder: Path) -> None:
    answer = json.loads(fleet(folder, "--json").stdout)

    jsonschema.validate(answer, Fleet.schema())
    assert (answer["schema_version"], answer["basis"], len(answer["jobs"])) == (1, "day", 10)
    assert json.loads(CliRunner().invoke(main, ["schema", "--of", "fleet"]).stdout)["title"] == "Fleet"


def test_tables_hold_every_row_and_parquet_its_kinds(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    done = fleet(folder, "--hours", "10h", "--tables", tmp_path / "tables")

    assert done.exit_code == 0
    rows = list(csv.DictReader((tmp_path / "tables" / "jobs.csv").read_text().splitlines()))
    assert len(rows) == 10
    assert {row["hours_from"] for row in rows} == {"option"}, "as in Parquet: nothing that a spreadsheet would compute"
    hours = parquet.read_table(tmp_path / "tables" / "causes.parquet").to_pydict()
    assert sum(hours["gpu_hours"]) == pytest.approx(800)
    assert hours["price"] == [None] * len(hours["price"]), "nobody states a price"


def test_the_page_is_one_file_whose_texts_are_escaped(tmp_path: Path) -> None:
    jobs = {
        "a": made_job(("<script>alert(1)</script>",), causes={"data-wait": 0.5}),
        "b": made_job(began="2026-08-02T12:00:00Z"),
    }
    answer = fleet_at(written(tmp_path, jobs))
    page = fleet_page(answer, About("1.0", "diagnose fleet DIR"))

    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert "96.0 of 384 GPU-hours a day are lost (25.0 %)" in page
    assert page.count("<g><title>2026-08") == 2, "a bar for each day, also for that on which nothing is lost"


def test_the_page_has_the_hours_of_each_cause_by_day(folder: Path) -> None:
    answer = fleet_at(folder)
    view = days_view(answer)

    assert view is not None
    assert view.causes == ["data wait", "operator dispatch"]
    assert [row[0] for row in view.rows] == sorted({day.day for day in answer.days})
    told = {(row[0], cause): float(cell) for row in view.rows for cause, cell in zip(view.causes, row[1:], strict=True)}
    for day in answer.days:
        assert told[day.day, cause_name(day.cause)] == pytest.approx(day.gpu_hours, rel=0.01)
    page = fleet_page(answer, About("1.0"))
    assert f'<td class="number" data-head="data wait">{view.rows[0][1]}</td>' in page


def test_a_hostile_name_drives_no_terminal(tmp_path: Path) -> None:
    hostile = made_job(("host\x1b]0;x\x07",), causes={"data-wait": 0.5}, began="\x1b[31m", slurm="\x1b[1m")
    written(tmp_path, {"a\x1b[2J": hostile})

    done = fleet(tmp_path, "--details")

    assert done.exit_code == 0
    assert "\x1b" not in done.output
    assert "\\x1b" in done.output


def test_what_is_none_ends_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text('{"schema_version": 4')
    broken, nothing, file = fleet(tmp_path), fleet(tmp_path / "none"), fleet(tmp_path / "broken.json")

    assert [done.exit_code for done in (broken, nothing, file)] == [3, 3, 3]
    assert "1 file cannot be used, the first is broken.json" in broken.output
    assert "no such folder" in nothing.output
    assert "no folder of diagnoses" in file.output


def test_hours_have_an_end(folder: Path) -> None:
    done = fleet(folder, "--hours", "1e300h")

    assert done.exit_code == 2
    assert "1e300h is longer than 1e+12 hours" in done.output


def test_runs_are_left_alone_where_only_diagnoses_are_wanted(tmp_path: Path) -> None:
    samples = Path(__file__).parents[2] / "sample_traces"
    (tmp_path / "run").symlink_to(samples / "synthetic-straggler")
    written(tmp_path, {"a": made_job()})
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / "t.json.gz").write_bytes((samples / "synthetic-tiny-kernels.json.gz").read_bytes())

    answer = json.loads(fleet(tmp_path, "--diagnoses-only", "--json").stdout)

    assert (answer["diagnoses"], answer["analysed"]) == (1, 0)
    assert "1 run without a diagnosis: left out, as --diagnoses-only asks" in answer["notes"]


def test_every_table_has_a_name_and_columns_even_when_empty(tmp_path: Path) -> None:
    tables = fleet_tables(fleet_at(written(tmp_path, {"a": made_job()})))

    assert list(tables) == ["jobs", "causes", "groups", "changes", "hosts", "trends", "days", "host_days", "unread"]
    assert not tables["hosts"].rows
    assert all(table.columns for table in tables.values())
