"""Databases that are damaged, or that somebody made to do harm: refused with a message, and nothing in them runs."""

import os
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from nsys_exports import KERNEL, RANGES, RUNTIME, kernel, launch, named_range, training_export, write_export

from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import Loading, load
from diagnose.trace.nsight import database
from diagnose.trace.nsight.database import Database


def analyze(path: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["analyze", str(path), *options])


@pytest.mark.parametrize("kept_bytes", [17, 100, 4096, 12_000, 20_000])
def test_a_cut_database_is_refused(tmp_path: Path, kept_bytes: int) -> None:
    path = training_export(tmp_path / "a.sqlite", steps=200)
    os.truncate(path, kept_bytes)

    done = analyze(path)
    assert done.exit_code == 3, done.output
    assert "the database is damaged, or not from Nsight Systems" in done.output


@pytest.mark.parametrize("at", range(100, 40_000, 1_500))
def test_damage_anywhere_ends_in_an_answer_or_a_message(tmp_path: Path, at: int) -> None:
    path = training_export(tmp_path / "a.sqlite", steps=200)
    content = bytearray(path.read_bytes())
    content[at : at + 64] = bytes(range(64))
    path.write_bytes(content)

    assert analyze(path, "-q").exit_code in (0, 3)


@pytest.mark.parametrize("name", [b"CREATE TABLE", b"CUPTI_ACTIVITY_KIND_KERNEL", b"globalTid", b"start"])
def test_a_byte_that_is_no_utf8_in_the_schema_ends_in_an_answer_or_a_message(name: bytes, tmp_path: Path) -> None:
    content = training_export(tmp_path / "sound.sqlite").read_bytes()
    at = content.index(name)

    for byte in range(at, at + len(name)):
        (tmp_path / "report.sqlite").write_bytes(content[:byte] + b"\xff" + content[byte + 1 :])
        found = analyze(tmp_path / "report.sqlite")
        assert found.exit_code in (0, 3), found.output
        assert found.exit_code == 0 or "the database is damaged" in found.output


def test_a_database_of_another_tool_is_refused(tmp_path: Path) -> None:
    done = analyze(write_export(tmp_path / "a.sqlite", ["x"], {"runs": [{"id": 1}]}))

    assert (done.exit_code, "not an export of Nsight Systems" in done.output) == (3, True)


def test_what_is_no_plain_table_is_not_read(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", ["x"], {KERNEL: [kernel(0, 1, 1)]})
    connection = sqlite3.connect(path)
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, i AS end FROM n"
    connection.execute(f"CREATE VIEW {RUNTIME} AS {endless}")
    connection.execute(f"CREATE VIRTUAL TABLE {RANGES} USING fts5(text)")
    connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start, end AS (zeroblob(1000000000)), deviceId)")
    connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY (start, deviceId) VALUES (1, 0)")
    connection.commit()
    connection.close()

    with Database(path) as opened:
        assert (opened.columns(RUNTIME), opened.columns(RANGES)) == (frozenset(), frozenset())
        assert opened.columns("CUPTI_ACTIVITY_KIND_MEMCPY") == {"start", "deviceId"}
    assert load(path).names == ("x",)


def test_nothing_but_reading_is_allowed(tmp_path: Path) -> None:
    path = training_export(tmp_path / "a.sqlite")
    before = path.read_bytes()
    with Database(path) as opened:
        for statement in ("DROP TABLE StringIds", "ATTACH 'other' AS o", "SELECT load_extension('x')", "PRAGMA x"):
            with pytest.raises(UserError, match="SQLite says"):
                opened._run(statement)

    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["a.sqlite"])


def test_work_without_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = training_export(tmp_path / "a.sqlite", steps=20)
    monkeypatch.setattr(database, "_OPERATIONS_BETWEEN_LOOKS", 10)
    monkeypatch.setattr(database, "_OPERATIONS_AT_LEAST", 100)
    monkeypatch.setattr(database, "_OPERATIONS_PER_BYTE", 0)

    with pytest.raises(UserError, match="far more work than a file of its size can need"):
        load(path)


def test_ctrl_c_while_sqlite_works_is_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = training_export(tmp_path / "a.sqlite", steps=20)

    class Interrupted:
        def __rsub__(self, _other: int) -> int:
            raise KeyboardInterrupt

        def __sub__(self, _other: int) -> int:
            raise KeyboardInterrupt

    monkeypatch.setattr(database, "_OPERATIONS_BETWEEN_LOOKS", 10)
    with Database(path) as opened:
        monkeypatch.setattr(opened, "_looks_left", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            list(opened.integers(KERNEL, ("start",)))


def test_values_that_cannot_be_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [
        kernel(0, 1, 1),
        {**kernel(0, 3, 1), "start": "three"},
        {**kernel(0, 5, 1), "end": None},
        {**kernel(0, 7, 1), "start": 2**63 - 1},
        {**kernel(0, 9, 1), "end": 0},
        {**kernel(0, 11, 1), "streamId": -5, "deviceId": 0, "correlationId": 2**62, "demangledName": "none"},
    ]
    trace = load(write_export(tmp_path / "a.sqlite", ["x"], {KERNEL: rows}))

    assert trace.loss.kinds == {"non-finite-number": 1, "negative-duration": 1}
    assert trace.loss.events == 4
    assert (trace.stream.tolist(), set(trace.names)) == ([7, -1], {"x", "none"})


def test_names_of_any_length_and_letters_are_bounded(tmp_path: Path) -> None:
    ranges = [
        named_range(text, 1, 1) for text in ("r" * 100_000, "\x1b[31mred", "\ud800".encode("utf-8", "replace").decode())
    ]
    trace = load(write_export(tmp_path / "a.sqlite", ["k" * 100_000], {KERNEL: [kernel(0, 1, 1)], RANGES: ranges}))

    assert max(map(len, trace.names)) == 4096
    assert "\x1b" not in analyze(tmp_path / "a.sqlite", "--details").output


@pytest.mark.parametrize("name", ["a?mode=rwc.sqlite", "100%25.sqlite", "a#b.sqlite", "\u00fcber.sqlite"])
def test_a_name_is_a_name(tmp_path: Path, name: str) -> None:
    assert len(load(training_export(tmp_path / name))) == 25


def test_little_memory_is_enough(tmp_path: Path) -> None:
    path = training_export(tmp_path / "a.sqlite", steps=50)
    whole, spilled = load(path), load(path, Loading(memory_bytes=16_000))

    assert whole.ts.tolist() == spilled.ts.tolist()
    assert whole.names == spilled.names


def test_launches_alone_are_a_failed_capture(tmp_path: Path) -> None:
    path = write_export(tmp_path / "a.sqlite", ["k", "cudaLaunchKernel_v7000"], {RUNTIME: [launch(1, 1, 2)]})
    done = analyze(path)

    assert done.exit_code == 0
    assert "no GPU activity was recorded" in " ".join(done.output.split())
