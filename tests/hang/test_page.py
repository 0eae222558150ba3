"""The page of `diagnose hang`: the verdict, each side with its stack, the ranks; every text escaped."""

from dataclasses import replace
from pathlib import Path

import kinds_of_hangs as kinds
from click.testing import CliRunner
from recorded_calls import answer, job, written

from diagnose.cli import main
from diagnose.commands.hang.html import hang_page
from diagnose.report.views.summary import About

MISSING = Path(__file__).parents[2] / "sample_traces" / "dumps" / "hang-missing-rank"


def test_the_page_says_who_is_missing_where_and_what_to_do(tmp_path: Path) -> None:
    found = answer(tmp_path, kinds.MISSING)

    page = hang_page(found, About("1.0", "diagnose hang DIR"))

    assert "Rank 2 has not made call 7" in page
    assert "<strong>waits:</strong> ranks 0, 1 and 3: all_reduce 7" in page
    assert "<strong>last:</strong> rank 2: all_reduce 6" in page
    assert page.count('<th scope="row">') == len(found.ranks)
    assert all(line.split(":")[0] in page for line in found.next)
    assert "http" not in page.replace("http-equiv", "")


def test_a_stack_that_py_spy_saw_is_shown_with_the_rank(tmp_path: Path) -> None:
    folder = written(tmp_path, kinds.MISSING)
    (folder / "stacks-rank2.txt").write_text(
        'Process 7: python train.py\n\nThread 7 (active): "MainThread"\n    wait (train.py:99)\n'
    )

    done = CliRunner().invoke(main, ["hang", str(folder), "--html", str(tmp_path / "page.html")])

    assert done.exit_code == 0
    assert "rank 2, as py-spy saw it" in (tmp_path / "page.html").read_text()


def test_names_of_a_dump_are_escaped(tmp_path: Path) -> None:
    calls = [*kinds.DONE, kinds.waiting(replace(kinds.GRADIENTS, group=("0", "<script>")))]

    page = hang_page(answer(tmp_path, job(calls, calls, kinds.DONE)), About("1.0"))

    assert "<script" not in page


def test_the_command_writes_the_page_beside_what_it_prints(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["hang", str(MISSING), "--html", str(tmp_path / "page.html")])

    assert done.exit_code == 0
    assert "verdict   rank 2 is missing" in done.stdout
    assert "<h1" in (tmp_path / "page.html").read_text()
