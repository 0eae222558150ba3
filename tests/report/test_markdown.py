"""The report as Markdown: what it says, how long it gets, and what no name can do in it."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import diagnoses
import drawn
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from msgspec.structs import replace
from report.pages import sample

from diagnose.cli import main
from diagnose.diagnosis import Diagnosis, Evidence, NotAdvised, NotJudged, Patch, PlanStep, RankReport
from diagnose.diagnosis.postmortem import Clock, Excess, JobChange, Mismatch, Postmortem, Straggler, Traffic
from diagnose.facts import another_run
from diagnose.report.html import About
from diagnose.report.markdown import MOST_TOKENS, markdown
from diagnose.report.markdown.github import Writer, tokens
from diagnose.report.views.plain import plain

GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
WIDE = Writer(rows=10, prose=10_000, name=10_000)
ATTACK = (
    "x|`y``|\\|<img src=x onerror=alert(1)>[a](http://e.vil)![b](c) @team #12 www.e.vil $z$ *b* _i_ ~~s~~"
    "\n```\n| --- |\n# h"
)
NAMES = st.text(st.sampled_from("ab12 |`\\<>[]()!*_~&#@:/.$-+=\n\u202e") | st.characters(codec="utf-8"), min_size=1)


def document(diagnosis: Diagnosis) -> str:
    return markdown(diagnosis, About("1.0", "diagnose analyze run/"))


def flat(text: str) -> list[Token]:
    """Every token of the document as a reader of GitHub's Markdown sees it."""
    blocks = GITHUB.parse(text)
    return [token for block in blocks for token in [block, *(block.children or [])]]


@cache
def talkative(names: str = "") -> Diagnosis:
    """A job of 1,024 ranks of which everything that can be said is said, with `names` in every name."""
    of = diagnoses.data_bound()
    ledger = [replace(of.ledger[0], cause=f"{names}cause{i}", ns=10**7, share=1 / 12) for i in range(12)]
    finding = replace(
        diagnoses.DATA_WAIT,
        says=f"{names} The GPU waits. " * 20,
        do=f"{names} Raise it. " * 20,
        evidence=tuple(Evidence(fact=f"{names}{i}", value=names, unit="text", of=names) for i in range(10)),
        patch=Patch(target=f"{names}t", set={f"{names}{i}": names for i in range(10)}),
    )
    findings = tuple(replace(finding, rule=f"{names}rule{i}") for i in range(80))
    message = Traffic(
        kind=f"all_gather{names}", group=names, ranks=1024, bytes=1 << 28, count_per_step=3, transfer_ns=10**6,
        waiting_ns=10**5, exposed_share=0.1, busbw_gbs=100.0, expected_busbw_gbs=300.0, note=names,
    )  # fmt: skip
    late = Straggler(
        rank=0, cause="data", waiting_ns_caused=10**9, host=names, because=f"{names} b" * 20, steps_late=3,
        excess=tuple(Excess(cause=f"{names}{i}", ns=10**6) for i in range(9)), explained_share=0.9,
        gpu_hours_per_day=12.3, cost_per_day=45.6,
    )  # fmt: skip
    return diagnoses.judged(
        of,
        verdict=diagnoses.verdict("data-bound", because=f"{names} because " * 30),
        ledger=tuple(ledger),
        waterfall=diagnoses.divided(tuple(ledger), of.mfu),
        findings=findings,
        plan=tuple(
            PlanStep(rule=f.rule, patch=f.patch, predicted_speedup=(1.1, 1.2), cumulative_speedup=(2, 3), numerics=True)
            for f in findings
        ),
        not_advised=tuple(NotAdvised(what=f"{names}w{i}", because=f"{names} b" * 9) for i in range(80)),
        not_judged=tuple(
            NotJudged.lacking(f"{names}r{i}", f"{names} b{i}", another_run(f"c{i % 9}{names}")) for i in range(90)
        ),
        ranks=tuple(
            RankReport(
                rank=i, device=f"{names}GPU{i % 7}", host=f"{names}{i // 8}", steps=8, verdict=of.verdict,
                ledger=tuple(ledger),
            )
            for i in range(1024)
        ),
        stragglers=tuple(replace(late, rank=i) for i in range(9)),
        history=(drawn.joined(names).history[0],) * 20,
        postmortem=Postmortem(
            missing_ranks=tuple(range(1024, 4096, 3)),
            passing=tuple(replace(late, rank=i) for i in range(40)),
            changes_error=0.0123,
            clocks=tuple(Clock(rank=i, offset_ns=i, drift_ppm=0.1, residual_ns=9) for i in range(1024)),
            mismatches=(Mismatch(kind="size", group=names, ranks=(1, 2), says=f"{names} differ"),) * 50,
            traffic=(message,) * 60,
            changes=(JobChange(change=names, says=f"{names} gone", speedup=(1.1, 1.3)),) * 20,
        ),
        trace=replace(
            of.trace, missing_ranks=tuple(range(1024, 4096, 3)),
            files=tuple(f"run/{names}rank{i}.json.gz" for i in range(1024)),
        ),
        versions={f"{names}{i}": names for i in range(30)},
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("names", ["", ATTACK, "核" * 20, "0 1 2 " * 10])
def test_the_most_talkative_job_stays_below_4000_tokens(names: str) -> None:
    text = document(talkative(names))

    assert len(text) / 4 < MOST_TOKENS
    assert tokens(text) <= MOST_TOKENS
    for said in ("data-bound", "174.0 ms", "MFU", "Straggler", "What to change", "not judged", "Source", "more"):
        assert said in text


def test_more_than_what_is_cut_is_said() -> None:
    text = document(talkative())

    assert re.search(r"^\+\d+ more", text, re.MULTILINE)
    assert re.search(r"^\+1,0\d\d ranks that lose less$", text, re.MULTILINE)


@pytest.mark.long
def test_no_name_becomes_markup_a_link_or_a_mention() -> None:
    harmless, attacked = (flat(document(talkative(names))) for names in ("0 1 2 " * 10, ATTACK))

    kinds = {token.type for token in attacked}
    assert not kinds & {"html_inline", "link_open", "image", "em_open", "s_open", "hr"}
    assert [t.content for t in attacked if t.type == "html_block"] == [
        t.content for t in harmless if t.type == "html_block"
    ]
    assert [t.tag for t in attacked if t.type == "heading_open"] == [
        t.tag for t in harmless if t.type == "heading_open"
    ]
    shown = " ".join(token.content for token in attacked if token.type == "text")
    assert not re.search(r"://|@\w|www\.|#\d", shown)


def test_what_is_long_and_no_part_of_the_answer_is_folded() -> None:
    short, long = document(diagnoses.undecided()), document(sample("synthetic-straggler"))

    assert "### What was not judged" in short
    for title in ("Findings", "Named ranges", "Ranks", "What would not help", "What was not judged", "Source"):
        assert f"\n\n<details>\n<summary><b>{title}</b></summary>\n\n" in long
        assert f"### {title}" not in long
    assert long.count("\n\n</details>\n") == 6
    assert "### Where the step goes" in long
    assert "### What to change" in long


@pytest.mark.parametrize("case", [diagnoses.diagnosis, diagnoses.data_bound, diagnoses.hostile, diagnoses.undecided])
def test_every_row_has_a_cell_for_each_column(case: Any) -> None:
    tables = re.findall(r"<table>.*?</table>", GITHUB.render(document(case())), re.DOTALL)

    assert tables
    for table in tables:
        cells = [len(re.findall(r"<t[hd]\b", row)) for row in table.split("</tr>")[:-1]]
        assert len(set(cells)) == 1


@given(NAMES)
@settings(max_examples=150, deadline=None)
def test_a_sentence_reads_as_it_was_written(name: str) -> None:
    for text in (f"{WIDE.text(name)}\n", WIDE.items([name]), WIDE.table(["head"], [[name]])):
        shown = "".join(t.content for t in flat(text) if t.type in ("text", "code_inline"))

        assert shown.removeprefix("head") == plain(name)


@given(NAMES)
@settings(max_examples=150, deadline=None)
def test_a_name_is_code_alone_and_in_a_table(name: str) -> None:
    for text in (WIDE.code(name), WIDE.table(["head"], [[WIDE.code(name)]])):
        shown = [t.content for t in flat(text) if t.type == "code_inline"]

        assert shown == ([plain(name).replace("\\|", "\\¦")] if plain(name) else [])


@given(st.lists(NAMES.map(plain), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_no_line_ends_its_fence(lines: list[str]) -> None:
    blocks = GITHUB.parse(f"{WIDE.fence(lines, 'python')}\n\nafter")

    assert [block.type for block in blocks[:2]] == ["fence", "paragraph_open"]
    assert blocks[0].content == "\n".join(lines) + "\n"


def test_the_change_is_there_to_copy_with_what_it_rests_on() -> None:
    blocks = GITHUB.parse(document(diagnoses.data_bound()))

    fences = [block.content for block in blocks if block.type == "fence"]
    assert fences[0] == "TrainingArguments(..., dataloader_num_workers=8, dataloader_pin_memory=True)\n"
    text = document(diagnoses.data_bound())
    assert "**1. set dataloader_num_workers=8, dataloader_pin_memory=True** (up to 1.7x) · `data-wait`" in text
    assert "| `data-wait` | `data_wait_share` | 39.7 % | the device step |" in text
    assert "| **data** | 73.0 ms | 42.0 % |\n| data wait | 69.0 ms | 39.7 % |" in text
    assert "- Straggler: rank 1 is late because of its data" in text
    assert "| lost | 1,234 events; 4.8 MiB of 381.5 MiB" in text


def test_the_post_mortem_of_a_job_is_told() -> None:
    text = document(drawn.joined())

    for part in (
        "- History: since step 8,123: 14 % slower on node0",
        "it costs the job 8.3 GPU-hours per day, 20.70 at the stated price; 15.0 ms more",
        "Missing: no trace of rank 6, 7 of 8; the late rank may be among them",
        "- Mismatch: rank 1 on node0 has 3 fewer",
        "- Passing: rank 4 on node2 held up 2 steps because of garbage collection",
        "- Late rank 1: data wait 15.0 ms, matrix products 1.0 ms beyond the other ranks per step; 94.7 % of its",
        "| `node0` | 2 | 8 | 0 | 0 | 0 | 92 | 0 | 3 |\n| `node1` | 2 | 7 | 0 | 0 | 0 | 93 | 0 | 7 |",
        "| `allreduce` | 25.0 MiB | 6 | 12 | 200.0 us | 50.0 us | 3.1 % | 131.1 GB/s | 255.0 GB/s |",
        "- Whole job, 1.07-1.09x: no rank is late; saves at least 9.7 GPU-hours per day",
        "- Whole job: by a replay of all ranks together; unchanged, it is at most 1.2 % off",
        "- Clocks: 6 ranks aligned: up to 5.0 us apart, residual 305 ns",
    ):
        assert part in text, part
    without = document(replace(drawn.joined(), postmortem=None))
    assert "<b>Ranks</b>" in without
    assert "Missing" not in without
    assert "`node0`" not in without


@pytest.fixture
def _analysed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.analysis.analyze", lambda *_, **__: diagnoses.data_bound())


def analyze(*args: Any) -> Result:
    return CliRunner().invoke(main, ["analyze", "run/", *map(str, args)])


@pytest.mark.usefixtures("_analysed")
def test_it_is_written_beside_the_report_or_printed_instead(tmp_path: Path) -> None:
    to = tmp_path / "report.md"

    beside, instead = analyze("--markdown", to), analyze("--markdown", "-")

    assert beside.stdout == analyze().stdout
    assert beside.stderr == f"wrote {to}\n"
    assert instead.stdout.startswith("## diagnose: **data-bound** · 174.0 ms per device step")
    written = to.read_text(encoding="utf-8")
    assert [line for line in written.splitlines() if "command" not in line] == [
        line for line in instead.stdout.splitlines() if "command" not in line
    ]


@pytest.mark.usefixtures("_analysed")
@pytest.mark.parametrize("other", ["--json", "--details", "--quiet", "--kernels=3"])
def test_stdout_holds_one_report(other: str) -> None:
    assert analyze("--markdown", "-", other).exit_code == 2


def test_a_place_that_cannot_be_written_is_refused_before_the_analysis(tmp_path: Path) -> None:
    done = analyze("--markdown", tmp_path / "missing" / "report.md")

    assert done.exit_code == 3
    assert "cannot write the Markdown report" in done.output
