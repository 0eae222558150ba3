"""`diagnose compare`: what it prints and writes, and how it ends."""

import json
import re
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from compared_runs import SAMPLES, kernel, run, side
from markdown_it import MarkdownIt

from diagnose.cli import main
from diagnose.commands.compare.answer import Comparison
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.html import comparison_page
from diagnose.commands.compare.markdown import comparison_markdown
from diagnose.commands.compare.side import SideRank
from diagnose.commands.compare.views import comparison_view, headline
from diagnose.report.markdown.github import MOST_TOKENS, tokens
from diagnose.report.views.one_unit import of_times
from diagnose.report.views.summary import About

LOADER, HEALTHY = str(SAMPLES / "cpu-slow-loader.json.gz"), str(SAMPLES / "cpu-healthy.json.gz")
HOSTILE = "<script>alert(1)</script>\x1b[2J|`[x](http://evil)"


def invoke(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, ["compare", *args])


def a_comparison(**changes: object) -> Comparison:
    """Two ranks, of which one is cured, with other kernels and settings."""
    late = (SideRank(rank=0, step_ns=10**8, own_ns=6 * 10**7), SideRank(rank=1, step_ns=10**8, own_ns=10**8, late=True))
    cured = tuple(SideRank(rank=rank, step_ns=8 * 10**7, own_ns=8 * 10**7) for rank in (0, 1))
    before = run(100, 101, 99, 100, each_rank=late, kernels=(kernel("gemm", 50),), setup={"ddp.bucket_cap_mb": 25})
    after = {"each_rank": cured, "kernels": (kernel("fused", 30),), "setup": {"ddp.bucket_cap_mb": 100}}
    return compare(before, run(80, 81, 79, 80, **(after | changes)))


def test_the_first_line_says_which_run_is_faster_and_where_from() -> None:
    result = invoke(LOADER, HEALTHY)

    assert result.exit_code == 0
    first = " ".join(result.stdout.split("sure  ")[0].split())
    assert re.match(r"verdict B is \d\.\d\dx faster \(sure: [\d.]+-[\d.]+x\): [\d.]+ -> [\d.]+ ms per step", first)
    assert re.search(r"why data wait takes [\d.]+ ms less per step doubt the configuration is not compared$", first)


def test_a_column_has_one_unit() -> None:
    causes = next(table for table in comparison_view(a_comparison()).tables if table.title == "Causes")
    units = {cell.split()[-1] for row in causes.rows for cell in row[2:5] if cell != "-"}

    assert units == {"ms"}


def test_the_table_of_causes_ends_with_the_step_that_they_add_up_to() -> None:
    view = comparison_view(a_comparison())

    causes = next(table for table in view.tables if table.title == "Causes")
    assert causes.rows[-1] == ("the step", "", "100.0 ms", "80.0 ms", "-20.0 ms", "-20.0 %")
    assert [row[4] for row in causes.rows[:-1]] == ["-10.0 ms", "-10.0 ms"]


def test_signed_figures_stand_right_of_their_column_in_markdown() -> None:
    lines = comparison_markdown(a_comparison(), About("1")).splitlines()

    assert lines[lines.index("| cause | class | A | B | B - A | share |") + 1] == "| --- | --- |" + " ---: |" * 4


def test_the_markdown_of_the_most_talkative_comparison_stays_below_4000_tokens() -> None:
    names = [f"{HOSTILE * 3}{i}" for i in range(200)]
    found = a_comparison(setup={name: name * 9 for name in names}, kernels=tuple(kernel(name, 1) for name in names))

    text = comparison_markdown(found, About("1"))

    assert tokens(text) <= MOST_TOKENS
    assert "#### Causes" in text


def test_every_table_stands_in_every_form() -> None:
    found = a_comparison()
    titles = [table.title for table in comparison_view(found).tables]

    assert titles == ["Runs", "Causes", "Kernels", "Ranks", "Configuration"]
    for text in (comparison_page(found, About("1")), comparison_markdown(found, About("1"))):
        assert all(title in text for title in titles)
        assert "ddp.bucket_cap_mb" in text
        assert "100.0 ms late" in text


def test_the_json_fits_its_schema() -> None:
    result = invoke(LOADER, HEALTHY, "--json")
    found = json.loads(result.stdout)

    jsonschema.validate(found, Comparison.schema())
    assert found["verdict"] == "better"
    assert found["speedup"][0] < found["speedup"][1] < found["speedup"][2]
    assert sum(row["ns"] for row in found["difference"]) == found["difference_ns"]
    assert {"cause", "class", "ns"} <= found["difference"][0].keys()
    assert (
        CliRunner().invoke(main, ["schema", "--of", "compare"]).stdout
        == json.dumps(Comparison.schema(), indent=2) + "\n"
    )


@pytest.mark.parametrize("verdict", ["better", "worse", "no_difference", "not_comparable"])
def test_every_verdict_has_its_headline_and_fits_the_schema(verdict: str) -> None:
    pairs = {
        "better": ((100, 101, 99), (80, 81, 79)),
        "worse": ((80, 81, 79), (100, 101, 99)),
        "no_difference": ((100, 101, 99), (100, 99, 101)),
        "not_comparable": ((100,), (80,)),
    }
    before, after = pairs[verdict]
    found = compare(run(*before), run(*after))

    assert found.verdict == verdict
    words = {"better": "faster than A", "worse": "slower than A"}
    assert words.get(verdict, verdict.replace("_", " ")) in headline(found)
    jsonschema.validate(json.loads(found.to_json()), Comparison.schema())


def test_a_regression_beyond_the_tolerance_ends_with_1_and_its_reason() -> None:
    slower = invoke(HEALTHY, LOADER, "--fail-on-regression", "5%")
    faster = invoke(LOADER, HEALTHY, "--fail-on-regression", "5%")
    same = invoke(HEALTHY, HEALTHY, "--fail-on-regression", "0%")

    assert (slower.exit_code, faster.exit_code, same.exit_code) == (1, 0, 0)
    assert re.search(
        r"regression: the step takes [\d.]+ % longer, beyond the noise and the tolerance of 5 %", slower.stderr
    )


def test_runs_that_cannot_be_compared_are_no_proof_of_no_regression(tmp_path: Path) -> None:
    log = tmp_path / "steps.csv"
    log.write_text("step,step_time_ms\n1,30\n2,31\n3,30\n")

    assert invoke(str(log), HEALTHY).exit_code == 0
    failed = invoke(str(log), HEALTHY, "--fail-on-regression", "5%")
    assert failed.exit_code == 1
    assert "regression: the runs cannot be compared" in failed.stderr


def test_pages_are_written_beside_what_is_printed(tmp_path: Path) -> None:
    html, markdown = tmp_path / "c.html", tmp_path / "c.md"
    result = invoke(LOADER, HEALTHY, "--html", str(html), "--markdown", str(markdown))

    assert "verdict  " in result.stdout
    assert "<h1" in html.read_text()
    assert markdown.read_text().startswith("### B is ")


def test_out_takes_what_would_be_printed(tmp_path: Path) -> None:
    text, markdown, as_json = (tmp_path / name for name in ("c.txt", "c.md", "c.json"))
    printed = [
        invoke(LOADER, HEALTHY, "-o", str(text)).stdout,
        invoke(LOADER, HEALTHY, "--markdown", "-", "--out", str(markdown)).stdout,
        invoke(LOADER, HEALTHY, "--json", "--out", str(as_json)).stdout,
    ]

    assert printed == ["", "", ""]
    assert text.read_text().startswith("verdict  ")
    assert markdown.read_text().startswith("### B is ")
    assert json.loads(as_json.read_text())["verdict"] == "better"


@pytest.mark.parametrize(
    "args", [("--json", "--markdown", "-"), ("--fail-on-regression", "5"), ("--noise", "-1%"), ("--noise", "nan")]
)
def test_wrong_usage_ends_with_2(args: tuple[str, ...]) -> None:
    assert invoke(LOADER, HEALTHY, *args).exit_code == 2


def test_standard_input_is_refused() -> None:
    assert invoke("-", HEALTHY).exit_code == 2


def test_a_missing_run_ends_with_3() -> None:
    assert invoke(HEALTHY, "not/there").exit_code == 3


def test_names_drive_neither_terminal_nor_page_nor_markdown() -> None:
    found = a_comparison(source=HOSTILE, device=HOSTILE, setup={HOSTILE: HOSTILE}, kernels=(kernel(HOSTILE, 3),))

    page, markdown = comparison_page(found, About("1")), comparison_markdown(found, About("1"))
    view = comparison_view(found)
    assert "<script>" not in page
    assert "\x1b" not in page + markdown + str(view)
    assert "<script>" not in MarkdownIt("commonmark").render(markdown)


def test_a_comparison_fits_a_narrow_terminal() -> None:
    narrow = CliRunner(env={"COLUMNS": "60"}).invoke(main, ["compare", LOADER, HEALTHY])

    assert max(len(line) for line in narrow.stdout.splitlines()) <= 60
    assert "the step" in narrow.stdout


@pytest.mark.parametrize("columns", [40, 60, 80])
def test_both_runs_stand_in_every_table_however_narrow(columns: int) -> None:
    printed = CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["compare", LOADER, HEALTHY]).stdout.splitlines()
    heads = [
        printed[at + 1].split()
        for at, line in enumerate(printed)
        if re.fullmatch(r"runs|causes|kernels|operators|configuration", line)
    ]

    assert len(heads) >= 3
    assert all("A" in head and "B" in head for head in heads)
    assert max(map(len, printed)) <= columns


def test_signs_and_small_factors() -> None:
    barely = compare(run(100, 100, 100), run(99.2, 99.2, 99.2), floor_share=0.001)

    unit = of_times([56_400_000])

    assert [unit.cell(ns, sign=True) for ns in (-56_400_000, 0, 1_500)] == ["-56.4 ms", "-", "< 0.1 ms"]
    assert headline(barely).startswith("B is 1.008x faster than A (1.007-1.009x)")


def test_the_sample_pair_is_told_by_its_loader() -> None:
    found = compare(side(Path(LOADER)), side(Path(HEALTHY)))

    assert found.verdict == "better"
    assert found.difference[0].cause == "data-wait"
