"""README.md and pages of docs/: links lead somewhere, commands exist, outputs and figures are the program's."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import click
import pytest
from over_all import over_all

from diagnose.cli import main
from diagnose.judge import verdict

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "sample_traces/README.md")]
PAGES += sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "design").glob("*.md")])
RECORDS = [ROOT / "CHANGELOG.md", *sorted((ROOT / "benchmarks" / "reports").glob("*.md"))]
WALKED = ["tutorial.md", "post-mortem.md"]
FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!\w+:)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]*))?\)")
HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)
MARKER = re.compile(r"^<!-- output of: (?P<command>[^;\n]+?)(?:; parts: [^\n]+)? -->$", re.MULTILINE)
FIGURE = re.compile(r"(?<![\w.])\d+\.\d+(?![\w]*\.\d)")
QUOTIENT = re.compile(r"`(?P<above>[\d.]+) / (?P<below>[\d.]+) = (?P<is>[\d.]+)`")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> set[str]:
    """As code hosts and the site make them: lower case, no punctuation, hyphens for blanks."""
    titles = [heading["title"].replace("`", "") for heading in HEADING.finditer(prose(page))]
    headings = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return headings | set(re.findall(r'<a id="(\w+)">', prose(page)))


@over_all("page", [*PAGES, *RECORDS])
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in LINK.finditer(prose(page)):
        to = (page.parent / link["path"]).resolve() if link["path"] else page
        if not to.is_file() or (link["anchor"] and link["anchor"] not in anchors(to)):
            broken.append(link[0])

    assert broken == []


def commands(page: Path) -> Iterator[str]:
    """Every `diagnose ...` line of the page's sh blocks, and those in its tables and sentences."""
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        if block["language"] == "sh":
            yield from block["text"].replace("\\\n", " ").splitlines()
    yield from re.findall(r"`(diagnose [^`\n]+)`", prose(page))


def refused(line: str) -> str | None:
    """Why the command line would be refused; None when it parses. What follows `--` is the user's own command."""
    words = shlex.split(re.split(r"\s[#|>]", line)[0])
    words = ["1" if re.fullmatch("[A-Z]", word) else word for word in words]  # `--step K` stands for a number
    while words and Path(words[0]).name != "diagnose":
        words = words[1:]
    if len(words) < 2 or words[1].startswith("-"):
        return None
    command = main.get_command(click.Context(main), words[1])
    if command is None:
        return f"{line}: no such command"
    try:
        command.make_context(words[1], words[2:])
    except click.MissingParameter:  # a sentence on an option leaves out the rest
        return None
    except click.UsageError as error:
        return None if "requires an argument" in error.format_message() else f"{line}: {error.format_message()}"
    return None


@over_all("page", PAGES)
def test_every_command_parses(page: Path) -> None:
    assert [why for line in commands(page) if "diagnose" in line and (why := refused(line))] == []


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert refused("srun diagnose run --outt x -- train.py") is not None
    assert refused("diagnose analyse trace.json") == "diagnose analyse trace.json: no such command"
    assert refused("diagnose run -- python train.py --its-own") is None


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
@pytest.mark.parametrize("page", WALKED)
def test_every_output_is_that_of_the_command_above_it(page: str, generate: ModuleType) -> None:
    path = ROOT / "docs" / page
    text = path.read_text(encoding="utf-8")

    for marker in MARKER.finditer(text):
        shown = [block["text"] for block in FENCE.finditer(text[: marker.start()]) if block["language"] == "sh"]
        assert marker["command"] in "".join(shown).splitlines()
    assert generate.with_outputs(path) == text


@pytest.mark.parametrize("page", WALKED)
def test_every_figure_in_the_text_is_in_an_output_or_follows_from_two(page: str) -> None:
    path = ROOT / "docs" / page
    text = path.read_text(encoding="utf-8")
    printed = {figure for block in FENCE.finditer(text) for figure in FIGURE.findall(block["text"])}

    for quotient in QUOTIENT.finditer(text):
        assert f"{float(quotient['above']) / float(quotient['below']):.2f}" == quotient["is"]
        assert {quotient["above"], quotient["below"]} <= printed
        printed.add(quotient["is"])
    assert set(FIGURE.findall(prose(path))) <= printed | {"3.11"}  # the version of Python


@over_all("page", PAGES)
def test_every_threshold_that_is_quoted_is_that_of_the_verdict(page: Path, generate: ModuleType) -> None:
    text = page.read_text(encoding="utf-8")

    assert generate.with_thresholds(text) == text


def test_a_page_follows_a_threshold_that_changes(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "NAMES_THE_CLASS", 0.35)
    before, after = (f"at least <!-- threshold: NAMES_THE_CLASS -->{n}<!-- --> % of" for n in (20, 35))

    assert generate.with_thresholds(before) == after


def test_the_documented_report_is_the_golden_one() -> None:
    page = (ROOT / "docs" / "reading-the-report.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- (tests/goldens/\S+) -->\n```\n(.*?)```", page, re.DOTALL)

    assert shown is not None
    assert shown[2] == (ROOT / shown[1]).read_text(encoding="utf-8")
