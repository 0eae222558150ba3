"""benchmarks/speed/load.py: what stands in for a run that did not end, what is compared with what, and the report."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from measuring import Timed, Untimed, timed
from reporting import command_line, free_name
from speed import compared
from speed.compared import Measured, Source, never_again
from speed.load import SAMPLE, sizes_of
from speed.readers import AGAIN, FLOOR, OURS, Interpreter, Reader, fitting, found, interpreter, ours
from speed.replicate import replicate
from speed.tables import bar, in_short, parts, rounds

ROOT = Path(__file__).parent.parent
PATIENCE_S = 60.0
SMALL = Source("a.json.gz", 4000, 20, (("operators' shapes", 3), ("Python functions", 0)))


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def reader(name: str, code: str, times_text: float = 0.0) -> Reader:
    return Reader(name, "other", (*python(code), "{path}", "{round}"), times_text=times_text)


def seconds(wall: float, cpu: float = 1.0) -> list[Timed]:
    return [Timed(wall, cpu, 1 << 20)]


def test_a_run_has_its_times_and_the_peak_of_its_memory() -> None:
    outcome = timed(python("b = bytearray(200 << 20); import time; time.sleep(0.2)"), os.environ, PATIENCE_S)

    assert isinstance(outcome, Timed)
    assert outcome.wall_s > 0.2
    assert outcome.peak_bytes > 200 << 20


def test_a_run_that_takes_too_long_ends_with_all_that_it_started(tmp_path: Path) -> None:
    writes = f"import time\nwhile True:\n    open({str(tmp_path / 'alive')!r}, 'a').write('.')\n    time.sleep(0.01)"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {writes!r}])"

    outcome = timed(python(starts), os.environ, 2.0)

    assert outcome == Untimed("more than 2 s", 2.0)
    alive = tmp_path / "alive"  # there, unless a busy machine starts no process within two seconds
    time.sleep(0.1)
    before = alive.exists() and alive.stat().st_size
    time.sleep(0.2)
    assert (alive.exists() and alive.stat().st_size) == before


def test_a_run_that_takes_the_last_of_the_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([5 << 30, 5 << 30])
    monkeypatch.setattr("measuring.free_bytes", lambda: next(left, 1 << 20))

    outcome = timed(python("import time; time.sleep(60)"), os.environ, PATIENCE_S)

    assert outcome == Untimed("ended: takes more than 0 GB of memory, 0.0 GB are free")


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise ValueError('no events\\n\\n')", "failed: ValueError: no events"),
        ("import os; os.kill(os.getpid(), 9)", "failed: killed by SIGKILL"),
        ("raise ValueError('/tmp/abc/a.json: 1 | 2 of 3/4')", r"failed: ValueError: a.json: 1 \| 2 of 3/4"),
        ("raise SystemExit(3)", "failed: exit code 3"),
    ],
)
def test_a_run_that_fails_is_named_by_its_last_line(code: str, why: str) -> None:
    assert timed(python(code), os.environ, PATIENCE_S) == Untimed(why)


def test_readers_run_in_turn_and_none_again_that_did_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compared, "SETTLED_AFTER_S", 0)
    monkeypatch.setattr(compared, "free_bytes", lambda: 1000)
    log = tmp_path / "log"
    noted = f"import sys; open({str(log)!r}, 'a').write('NAME' + sys.argv[2] + ' ')"
    readers = [
        reader(AGAIN, noted.replace("NAME", "again")),
        reader("one", noted.replace("NAME", "one")),
        reader("failing", noted.replace("NAME", "failing") + "; 1 / 0"),
        reader("other", noted.replace("NAME", "other")),
        reader("large", noted.replace("NAME", "large"), times_text=101),
    ]
    trace = tmp_path / "trace.json"
    trace.write_bytes(10 * b" ")

    runs = compared.compared(readers, trace, 2, PATIENCE_S, {"other": "not run, of less text: more than 1 s"})

    assert log.read_text() == "again0 again1 one1 failing1 again2 one2 "
    assert [len(outcomes) for outcomes in runs.values()] == [2, 2, 1, 1, 1]
    assert runs["large"] == [Untimed("not run, too large: takes up to 0 GB of memory, 0 GB are free")]
    assert never_again(runs) == {
        "failing": "not run, of less text: failed: ZeroDivisionError: division by zero",
    }


def test_what_reads_from_the_cache_is_not_run_where_it_could_not_be_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compared, "SETTLED_AFTER_S", 0)

    runs = compared.compared([reader(AGAIN, "1 / 0")], tmp_path, 2, PATIENCE_S, {})

    assert runs == {AGAIN: [Untimed("not run, no cache: failed: ZeroDivisionError: division by zero")]}


def test_a_budget_of_memory_is_for_large_texts_only() -> None:
    small, large = ([r.name for r in fitting(ours(), size)] for size in ((1 << 30) - 1, 1 << 30))

    assert [name for name in large if name not in small] == ["diagnose --low-memory 2G"]


def test_each_floor_reads_a_trace_and_refuses_what_is_none(tmp_path: Path) -> None:
    replicate(SAMPLE, tmp_path / "whole.json", 1)
    text = (tmp_path / "whole.json").read_bytes()
    (tmp_path / "cut.json").write_bytes(text[: len(text) // 2])
    floors = [each for each in ours() if each.kind == "floor"]

    ends = {
        each.name: [
            isinstance(timed(each.on(tmp_path / name, 1), os.environ, PATIENCE_S), Timed)
            for name in ("whole.json", "cut.json")
        ]
        for each in floors
    }

    assert ends == {"floor: the bytes alone": [True, True], FLOOR: [True, False], "floor: json.loads": [True, False]}


def test_the_floor_decodes_the_arguments_that_diagnose_reads() -> None:
    (floor,) = (" ".join(each.command) for each in ours() if each.name == FLOOR)

    assert "'Process Group Ranks'" in floor
    assert "['Input Dims', 'Input type', 'Concrete Inputs', 'Input dims']" in floor


def test_interpreters_are_named_asked_for_versions_and_left_out_with_a_reason(tmp_path: Path) -> None:
    stated = ["pandas 2=" + sys.executable, f"none={tmp_path / 'python'}"]
    here, nowhere = (interpreter(text) for text in stated)
    assert here == Interpreter("pandas 2", sys.executable)
    assert interpreter("venv/bin/python") == Interpreter("", "venv/bin/python")

    others = found(["json", "tracelens"], [here, nowhere])

    assert [each.name for each in others.readers] == ["json (pandas 2)"]
    assert others.versions["json (pandas 2)"].startswith("Python 3.")
    assert ", pandas " in others.versions["json (pandas 2)"]
    assert others.skipped["tracelens (pandas 2)"] == (
        "ModuleNotFoundError: No module named 'TraceLens' "
        "(from github.com/AMD-AGI/TraceLens; the tracelens of PyPI is another project)"
    )
    assert others.skipped["json (none)"] == "No such file or directory"


def test_rows_are_ratios_of_one_round_and_a_reader_that_was_ended_takes_more_than_so_much() -> None:
    runs = {OURS: seconds(2.0, 3.0), FLOOR: seconds(1.0, 2.0), "hta": [Untimed("more than 60 s", 60.0)]}

    rows = rounds(runs, 1 << 21, "hta").splitlines()

    assert rows[2] == f"| {OURS} | 1 | 2.00 | 3.00 | 1 | 0.50 | 2.0x | 1.5x | >30.0x |  |"
    assert rows[4] == "| hta | 1 | more than 60 s |  |  |  |  |  |  |  |"
    assert len({row.count("|") for row in rows}) == 1


def measured(wall: float, others: dict[str, Sequence[Timed | Untimed]] | None = None) -> Measured:
    return Measured(SMALL, 2_000_000, {OURS: [*seconds(9.0), *seconds(wall)], FLOOR: seconds(1.0)} | (others or {}))


def test_the_first_table_has_the_best_rounds_and_names_where_the_bar_is_missed() -> None:
    others = {"hta": seconds(6.0), "lens": [Untimed("failed: TypeError: of something")]}

    rows = in_short([measured(3.0, others)], ["hta", "lens"]).splitlines()

    assert rows[2] == "| a.json.gz | 2 | 3.00 | 0.52 | 3.0x | 1.0x | 2.0x | failed |"
    assert "1 of 1 texts." in rows[-1]
    assert bar([measured(3.0), measured(3.2)]).endswith("1 of 2 texts. The most is 3.2 times, of 2 MB of a.json.gz.")
    assert bar([Measured(SMALL, 1, {OURS: seconds(1.0), FLOOR: [Untimed("failed")]})]).endswith("It was not measured.")


def test_the_report_names_versions_and_what_is_skipped() -> None:
    text = "\n\n".join(parts([measured(3.0)], {"hta": "Python 3, pandas 2"}, {"lens": "not there"}))

    assert "- hta: Python 3, pandas 2\n- skipped: lens, not there\n" in text
    assert (
        "## a.json.gz\n\n20 events in 0.0 MB of text: 3 with operators' shapes, none with Python functions.\n" in text
    )
    assert "### a.json.gz: 2 MB of text\n\n| reader |" in text


def test_one_size_stands_beside_a_small_one_and_several_for_themselves() -> None:
    assert sizes_of(["1G"]) == ["14M", "1G"]
    assert sizes_of(["1G", "20M"]) == ["20M", "1G"]


def test_the_command_is_told_without_the_places_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--source", "/data/a.json.gz", "--hta-python", "HTA, pandas 2=/venv/bin/python", "--out", "here/b"]
    monkeypatch.setattr(sys, "argv", ["/home/me/benchmarks/series.py", *words])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)

    assert command_line() == (
        "python benchmarks/series.py --source a.json.gz --hta-python 'HTA, pandas 2=python' --out here/b"
    )


def test_a_report_of_the_same_day_is_kept(tmp_path: Path) -> None:
    assert free_name(tmp_path, "load-2026-01-01") == "load-2026-01-01"
    for name in ("load-2026-01-01.md", "load-2026-01-01-2.md"):
        (tmp_path / name).touch()
    assert free_name(tmp_path, "load-2026-01-01") == "load-2026-01-01-3"


@pytest.mark.long
@pytest.mark.slow
def test_the_whole_comparison_writes_a_report(tmp_path: Path) -> None:
    words = ["--size", "1M", "--size", "2M", "--rounds", "1", "--limit", "120", "--vs", "tracelens"]

    subprocess.run(
        [sys.executable, "-m", "speed.load", *words, "--write", str(tmp_path)],
        cwd=ROOT, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks'}"},
    )  # fmt: skip

    (page,) = tmp_path.glob("load-*.md")
    text = page.read_text()
    assert text.count("### synthetic-memory-bound.json.gz: ") == 2
    assert "failed" not in text
