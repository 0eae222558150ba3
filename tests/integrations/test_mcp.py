"""`diagnose mcp`, asked by the client of the official SDK: what it answers, how long that gets, and its errors."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from integrations.asked import FIT, TRACE, refused, runs_in, session, told
from integrations.told import SAMPLES
from needs import needs
from read_once import diagnosis_of
from report.test_markdown import ATTACK, talkative

from diagnose import analysis
from diagnose.cli import main
from diagnose.cli.rules import all_rules
from diagnose.commands.agents.answers import Answers, cut
from diagnose.commands.agents.catalog import TOOLS
from diagnose.commands.agents.roots import Roots
from diagnose.report.markdown import MOST_TOKENS
from diagnose.report.markdown.github import tokens
from diagnose.report.tables import csv_of, tables_of

needs("mcp")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return runs_in(tmp_path)


def test_the_tools_say_what_they_take_and_that_they_only_read() -> None:
    listed = session(Answers(Roots([SAMPLES])), lambda client: client.list_tools()).tools

    assert [tool.name for tool in listed] == ["analyze", "plan", "compare", "explain", "fit"]
    assert all(tool.annotations.read_only_hint for tool in listed)
    schemas = {tool.name: tool.input_schema for tool in listed}
    assert schemas["analyze"]["required"] == ["path"]
    assert schemas["analyze"]["properties"]["rank"]["type"] == "integer"
    assert schemas["fit"]["properties"]["checkpointing"]["enum"] == ["none", "selective", "full"]
    assert not any(schema["additionalProperties"] for schema in schemas.values())
    described = [one for schema in schemas.values() for one in schema["properties"].values()]
    assert all(one["description"] for one in described)


def test_analyze_answers_with_the_report_and_its_tables(root: Path) -> None:
    async def asked(client: Any) -> tuple[str, list[str], str]:
        text = (await client.call_tool("analyze", {"path": TRACE})).content[0].text
        found = re.search(r"diagnose://\w+/", text)
        assert found is not None
        pages, uri = list[str](), f"{found[0]}facts"
        while uri:
            pages.append((await client.read_resource(uri)).contents[0].text)
            further = re.search(r"go on at (\S+)", pages[-1].splitlines()[0])
            uri = further[1] if further else ""
        return text, pages, (await client.list_resources()).resources[0].uri

    text, pages, listed = session(Answers(Roots([root])), asked)

    assert text.startswith("## diagnose: **data-bound** · 68.8 ms per host step")
    assert "`num_workers=4`" in text or "num_workers=4" in text
    assert "| command | `diagnose analyze /" in text
    assert listed.startswith("diagnose://")
    rows = [line for page in pages for line in page.splitlines()[2:]]
    whole = csv_of(tables_of(analysis.analyze(root / TRACE))["facts"]).decode().split("\r\n")
    assert rows == whole[1:-1]
    assert len(pages) > 1
    assert all(tokens(page) <= MOST_TOKENS for page in pages)


def test_plan_compare_explain_and_fit_answer(root: Path) -> None:
    shutil.copy(SAMPLES / "cpu-healthy.json.gz", root)

    assert "What to change" in told(root, "plan", path=TRACE)[0]
    assert told(root, "compare", before=TRACE, after="cpu-healthy.json.gz")[0].startswith("### B is ")
    assert "mechanism:" in told(root, "explain", name="launch-bound")[0]
    assert "of each 68.8 ms step" in told(root, "explain", name="python", from_run=TRACE)[0]
    text, failed = told(root, "fit", **FIT)
    assert not failed
    assert "fits: " in text


@pytest.mark.long
def test_every_sample_rule_and_forecast_stays_below_4000_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "analyze", lambda path, **_: diagnosis_of(path))
    answers = Answers(Roots([SAMPLES]))
    asked = [("analyze", {"path": path.name}) for path in SAMPLES.glob("*.json.gz")]
    asked += [("plan", arguments) for _, arguments in asked] + [("fit", FIT)]
    asked += [("explain", {"name": rule.id}) for rule in all_rules(())]

    for name, arguments in asked:
        text, failed = answers.answer(name, arguments)
        assert not failed, text
        assert tokens(text) <= MOST_TOKENS, (name, arguments)
        assert "(cut:" not in text


@pytest.mark.long
@pytest.mark.parametrize("names", [ATTACK, "核" * 20])
@pytest.mark.parametrize("name", ["analyze", "plan"])
def test_the_most_talkative_job_stays_below_4000_tokens(
    names: str, name: str, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analysis, "analyze", lambda *_, **__: talkative(names))
    answers = Answers(Roots([root]))

    text, failed = answers.answer(name, {"path": TRACE})

    assert not failed
    assert tokens(text) <= MOST_TOKENS
    assert all(tokens(answers.tables.page(uri)) <= MOST_TOKENS for uri, _, _ in answers.tables.listed())


def test_an_answer_that_no_writer_shortens_ends_where_it_is_too_long() -> None:
    text = cut("a line of words, 1 of many\n" * 5_000)

    assert tokens(text) <= MOST_TOKENS
    assert text.endswith("\n(cut: the answer is longer than an agent may be told)")
    assert cut("short\n") == "short\n"


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("analyse", {}, "call one of analyze, plan, compare, explain, fit"),
        ("analyze", {}, "The argument 'path' of analyze is missing"),
        ("analyze", {"path": ["a"]}, "'path' is a text or a number"),
        ("analyze", {"path": TRACE, "flop_per_step": 1e15}, "Did you mean 'flops_per_step'?"),
        ("analyze", {"path": TRACE, "html": "/tmp/x.html"}, "No argument 'html'"),
        ("analyze", {"path": TRACE, "rank": "many"}, "Invalid value for '--rank'"),
        ("analyze", {"path": TRACE, "rank": 7}, "no rank 7"),
        ("explain", {"name": "launch-bond"}, "did you mean launch-bound (rule)"),
        ("fit", {"model": "no-such-model", "gpu": "H100"}, "no file and no known model of that name"),
        ("fit", {**FIT, "liger": "yes"}, "'liger' is true or false"),
    ],
)
def test_an_error_says_what_to_do(name: str, arguments: dict[str, Any], says: str, root: Path) -> None:
    assert says in refused(root, name, **arguments)


def test_a_defect_of_ours_is_told_as_one_and_ends_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as broken:
        broken.setattr(analysis, "analyze", fails)
        assert "this is a bug in diagnose" in refused(root, path=TRACE)
    assert not told(root, "analyze", path=TRACE)[1]


def test_a_table_that_is_no_longer_kept_says_how_to_get_it(root: Path) -> None:
    from mcp import MCPError

    async def asked(client: Any) -> None:
        for uri in ("diagnose://0123456789ab/facts", "diagnose://../../etc/passwd", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="call analyze, plan or compare again"):
                await client.read_resource(uri)

    session(Answers(Roots([root])), asked)


@pytest.mark.long
def test_it_speaks_on_standard_input_and_output(root: Path) -> None:
    command = [sys.executable, "-m", "diagnose", "mcp", "--root", str(root)]

    async def asked(client: Any) -> tuple[Any, Any]:
        listed = await client.list_tools()
        return listed, await client.call_tool("analyze", {"path": TRACE})

    listed, result = session(command, asked)

    assert {tool.name for tool in listed.tools} == set(TOOLS)
    assert result.content[0].text.startswith("## diagnose: **data-bound**")


def test_without_the_sdk_it_says_what_to_install(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    monkeypatch.delitem(sys.modules, "diagnose.commands.agents.server", raising=False)

    ended = CliRunner().invoke(main, ["mcp", "--root", str(root)])

    assert ended.exit_code == 3
    assert 'pip install ".[mcp]"' in ended.stderr


def test_a_folder_that_is_not_there_ends_with_3_and_none_with_2(root: Path) -> None:
    assert CliRunner().invoke(main, ["mcp", "--root", str(root / "not")]).exit_code == 3
    assert CliRunner().invoke(main, ["mcp"]).exit_code == 2
