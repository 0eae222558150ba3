"""The page and the metrics of a view: what they hold, and what happens where they cannot be written."""

import re
from pathlib import Path

import pytest
from armed_folders import armed_folder
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.commands.watch.files import Files
from diagnose.commands.watch.glances import Glances
from diagnose.commands.watch.lines import one_line
from diagnose.commands.watch.prometheus import exposition
from diagnose.errors import UserError

SAMPLE = re.compile(r'(diagnose_[a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)+)\} (-?[\d.e+-]+)')
UNITS = ("_seconds", "_ratio", "_total", "_per_second", "_steps", "_stalls", "_state")


def watch(*words: object) -> Result:
    return CliRunner().invoke(main, ["watch", *map(str, words)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return armed_folder(tmp_path / "run", windows=[], ranks=2)


def test_each_metric_is_declared_once_before_its_samples_with_its_unit(run: Path) -> None:
    text = exposition(Glances(run).take(), "run")
    declared, sampled = [], []
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.append(line.split()[2])
        elif not line.startswith("# HELP "):
            found = SAMPLE.fullmatch(line)
            assert found, line
            assert found[1] == declared[-1]
            sampled.append((found[1], found[2]))

    assert len(set(declared)) == len(declared) == text.count("# HELP ")
    assert len(set(sampled)) == len(sampled)
    assert set(declared) == {name for name, _ in sampled}
    assert all(name.endswith(UNITS) for name in declared)
    assert all((name.endswith("_total")) == (f"# TYPE {name} counter" in text) for name in declared)
    assert 'diagnose_rank_steps_total{run="run",rank="1",host="n1"} 40\n' in text
    assert 'diagnose_step_seconds{run="run"} 0.01\n' in text


def test_what_is_unknown_is_no_metric(run: Path) -> None:
    text = exposition(Glances(run).take(), "run")

    assert not re.search("mfu|data_wait|tokens|samples_per|remaining|planned|waited_for", text)


def test_a_name_of_a_run_ends_no_label(run: Path) -> None:
    text = exposition(Glances(run).take(), 'a"b\\c\nd')

    assert 'diagnose_steps_total{run="a\\"b\\\\c\\nd"} 40\n' in text


def test_the_page_needs_nothing_else_and_says_what_the_line_says(run: Path, tmp_path: Path) -> None:
    done = watch(run, "--page", tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text()

    assert (done.exit_code, done.stderr) == (0, "")
    assert re.findall(r"https?://|<script|src=|url\(", page) == []
    assert "default-src 'none'" in page
    assert "ended: all ranks: the process ended" in page
    assert "1: step 40, 10.0 ms per step, ended" in page
    assert "10.0 ms at the end, 10.0 ms usual" in done.stdout


def test_the_page_escapes_what_a_log_says(run: Path, tmp_path: Path) -> None:
    for rank in range(2):
        log = run / f"rank{rank}.steps"
        log.write_text(log.read_text().replace("the process ended", "<b>over</b>"))
    watch(run, "--once", "--page", tmp_path / "view.html")

    assert "&lt;b&gt;over&lt;/b&gt;" in (tmp_path / "view.html").read_text()


@pytest.mark.parametrize("option", ["--page", "--prometheus"])
@pytest.mark.parametrize("more", [(), ("--once",)])
def test_a_file_that_cannot_be_written_is_said_at_once(
    option: str, more: tuple[str, ...], run: Path, tmp_path: Path
) -> None:
    done = watch(run, option, tmp_path / "none" / "file", *more)

    assert done.exit_code == UserError.exit_code
    assert done.stderr.startswith("Error: cannot write the view: ")


def test_a_file_that_fails_later_is_said_once_and_tried_again(
    run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    to, view = tmp_path / "view.txt", Glances(run).take()
    files = Files({to: one_line})

    files.write(view)
    to.unlink()
    to.mkdir()
    files.write(view)
    files.write(view)
    said = capfd.readouterr().err
    to.rmdir()
    files.write(view)

    assert said.count("view.txt is not written: Is a directory; it is tried again\n") == 1
    assert to.read_text() == one_line(view)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "view.txt"]
