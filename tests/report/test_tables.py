"""The tables: what is in them, that they read back as they were, and what writing them leaves alone."""

import csv
import os
from pathlib import Path
from typing import Any

import diagnoses
import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from diagnose.cli import main
from diagnose.diagnosis import Convention, Diagnosis, FactReport, KernelRow
from diagnose.diagnosis.postmortem import Postmortem, Traffic
from diagnose.report import tables
from diagnose.report.tables import CapacityTable, csv_of, parquet_of, tables_of

NAMES = {
    "ledger", "waterfall", "roofline", "operators", "kernels", "mfu", "facts", "findings", "evidence", "plan",
    "not_advised", "not_judged", "ranks", "stragglers", "traffic", "host_operators", "user_code", "ranges", "where",
}  # fmt: skip
HOSTILE = 'a,"b"\n=1+1\u202e;核'


def job() -> Diagnosis:
    """Two ranks with a row in every table but the roofline's."""
    of = diagnoses.data_bound()
    return replace(
        of,
        mfu=replace(diagnoses.KNOWN_MFU, conventions=(Convention(name="palm", model_flops_per_step=1e12, value=None),)),
        facts=(
            FactReport(name="data_wait_share", value=0.397, unit="share", of="the step"),
            FactReport(name="uses_ddp", value=True, unit="flag"),
            FactReport(name="loader_workers", value="none", unit="text"),
            FactReport(name="memory_peak", value=None, unit="bytes", because="no memory", capture_next="capture"),
        ),
        kernels=(
            KernelRow(
                name=HOSTILE, family="gemm", class_="compute", bound="compute", operator="aten::mm", count=1.5, ns=20,
                share=0.5, mean_ns=10, above_roof_ns=None,
            ),
        ),
        postmortem=Postmortem(
            traffic=(
                Traffic(
                    kind="all_reduce", group="0", ranks=2, bytes=1 << 20, count_per_step=2, transfer_ns=5, waiting_ns=3,
                    exposed_share=0.25, busbw_gbs=12.5,
                ),
            )
        ),
    )  # fmt: skip


def rows(name: str, diagnosis: Diagnosis | None = None) -> list[dict[str, str]]:
    return list(csv.DictReader(csv_of(tables_of(diagnosis or job())[name]).decode().splitlines(keepends=True)))


def test_every_table_is_there_whatever_was_found() -> None:
    for case in (job(), diagnoses.diagnosis(), diagnoses.hostile(), diagnoses.undecided()):
        assert tables_of(case).keys() == NAMES


def test_the_ledger_adds_up_to_the_step_and_each_rank_to_one() -> None:
    assert sum(int(row["time_ns"]) for row in rows("ledger")) == diagnoses.data_bound().steps.device_time_ns
    shares = [float(row["share_of_step"]) for row in rows("ranks") if row["rank"] == "1"]
    assert sum(shares) == pytest.approx(1)


def test_a_fact_is_a_number_a_flag_a_text_or_a_reason() -> None:
    facts = {row["fact"]: row for row in rows("facts")}

    assert facts["data_wait_share"]["value"] == "0.397"
    assert facts["uses_ddp"]["value"] == "1.0"
    assert (facts["loader_workers"]["value"], facts["loader_workers"]["text"]) == ("", "none")
    assert facts["memory_peak"]["value"] == ""
    assert (facts["memory_peak"]["because"], facts["memory_peak"]["capture_next"]) == ("no memory", "capture")


def test_the_plan_has_its_order_its_range_and_what_to_type() -> None:
    first = rows("plan")[0]

    assert (first["position"], first["rule"], first["changes_numerics"]) == ("1", "data-wait", "false")
    assert (first["speedup_low"], first["speedup_high"], first["cumulative_speedup_low"]) == ("1.0", "1.66", "")
    assert first["flags"] == "'--dataloader_num_workers 8 --dataloader_pin_memory True"


def test_unknown_figures_are_empty_and_traffic_is_per_collective() -> None:
    assert rows("mfu") == [{"convention": "palm", "model_flop_per_step": "1000000000000.0", "mfu_share_of_peak": ""}]
    assert rows("kernels")[0]["above_roof_ns"] == ""
    (message,) = rows("traffic")
    assert (message["bytes"], message["busbw_gb_per_s"], message["algbw_gb_per_s"]) == (str(1 << 20), "12.5", "")


def test_a_name_stays_in_its_field_with_control_characters_escaped() -> None:
    assert rows("kernels")[0]["kernel"] == 'a,"b"\\n=1+1\\u202e;核'
    assert len(csv_of(tables_of(job())["kernels"]).splitlines()) == 2


FORMULAS = ("=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)", " =1", "\tx", "\rx", "\uff1d1")


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_begins_as_a_formula_does(text: str) -> None:
    columns: dict[str, Any] = {"name": str, "ns": int, "share": float, "is_late": bool}
    table = CapacityTable(columns, ((text, -5, -0.5, True), ("a=1", 5, 0.5, False)))
    first, second = csv.reader(csv_of(table).decode().splitlines(keepends=True)[1:])
    assert first == [f"'{text}", "-5", "-0.5", "true"]
    assert second == ["a=1", "5", "0.5", "false"]


def test_parquet_holds_formulas_as_they_are() -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import BufferReader, parquet

    table = CapacityTable({"name": str}, tuple((text,) for text in FORMULAS))
    assert parquet.read_table(BufferReader(parquet_of(table)))["name"].to_pylist() == list(FORMULAS)


def test_parquet_holds_what_csv_holds_with_types() -> None:
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import BufferReader, parquet

    for table in (*tables_of(job()).values(), *tables_of(diagnoses.undecided()).values()):
        read = parquet.read_table(BufferReader(parquet_of(table)))

        assert read.column_names == list(table.columns)
        assert [tuple(row.values()) for row in read.to_pylist()] == list(table.rows)
    schema = parquet.read_schema(BufferReader(parquet_of(tables_of(diagnoses.undecided())["kernels"])))
    assert [str(schema.field(name).type) for name in ("kernel", "per_step_ns", "mean_ns")] == [
        "string",
        "int64",
        "int64",
    ]


@pytest.fixture(autouse=True)
def _analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.analysis.analyze", lambda *_, **__: job())


def analyze(*args: Any) -> Result:
    return CliRunner().invoke(main, ["analyze", "run/", *map(str, args)])


def test_the_folder_gets_a_file_for_each_table_and_keeps_its_others(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "plan.csv").write_text("old")

    done = analyze("--tables", tmp_path)

    assert done.stdout == analyze().stdout
    assert done.stderr.startswith(f"wrote {len(NAMES)} tables to {tmp_path}")
    assert done.stderr.splitlines()[0].split("; ")[1] == "overwritten: plan.csv"
    assert {path.stem for path in tmp_path.glob("*.csv")} == NAMES
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / "plan.csv").read_bytes() == csv_of(tables_of(job())["plan"])
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_without_pyarrow_a_line_says_how_to_get_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda _: None)

    done = analyze("--tables", tmp_path / "new" / "folder", "--json")

    assert done.exit_code == 0
    assert done.stdout == analyze("--json").stdout
    assert 'for Parquet beside CSV: pip install ".[tables]"' in done.stderr
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_file_in_the_folders_place_is_refused_and_stays(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.write_text("mine")

    done = analyze("--tables", there)

    assert done.exit_code == 3
    assert "cannot write the tables" in done.stderr
    assert there.read_text() == "mine"
