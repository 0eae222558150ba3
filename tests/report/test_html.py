"""The HTML report as text: one file that loads nothing, shows the diagnosis and nothing else, and runs no name."""

import base64
import hashlib
import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import diagnoses
import drawn
import pytest
from msgspec.structs import replace
from report.pages import Read, sample, written

from diagnose.diagnosis import Diagnosis
from diagnose.report import html
from diagnose.report.html.page import short_name

STATIC = Path(html.__file__).parent / "static"
CASES = [diagnoses.diagnosis, drawn.drawn, drawn.joined, drawn.hostile, diagnoses.undecided]
LOADS = ("src", "href", "xlink:href", "action", "srcset", "data", "poster", "background", "formaction")


@pytest.mark.parametrize("case", CASES)
def test_tags_are_closed_in_order_and_links_lead_somewhere(case: Callable[[], Diagnosis]) -> None:
    read = Read(written(case()))

    ids = [attributes["id"] for _, attributes in read.tags if "id" in attributes]
    named = {attributes[key] for _, attributes in read.tags for key in ("for", "aria-labelledby") if key in attributes}
    links = {attributes["href"].removeprefix("#") for _, attributes in read.tags if "href" in attributes}
    assert len(ids) == len(set(ids))
    assert links | named <= set(ids)


@pytest.mark.parametrize("case", CASES)
def test_a_screen_reader_finds_one_title_no_skipped_level_and_headed_columns(case: Callable[[], Diagnosis]) -> None:
    read = Read(written(case()))

    levels = [int(tag[1]) for tag, _ in read.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(attributes.get("scope") in ("row", "col") for tag, attributes in read.tags if tag == "th")
    assert ("html", {"lang": "en"}) in read.tags


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_loaded(case: Callable[[], Diagnosis]) -> None:
    text = written(case())
    read = Read(text)

    assert [a[key] for _, a in read.tags for key in LOADS if key in a and not a[key].startswith("#")] == []
    assert not {"link", "img", "iframe", "object", "embed", "base", "form", "video"} & {tag for tag, _ in read.tags}
    for embedded in read.of("style"):
        assert not re.search(r"url\(|@import|//", embedded)
    for embedded in STATIC.glob("*.js"):
        assert not re.search(r"https?:|fetch\(|XMLHttp|import\(|innerHTML|eval\(", embedded.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_the_policy_allows_these_styles_and_scripts_and_nothing_else(case: Callable[[], Diagnosis]) -> None:
    read = Read(written(case()))

    policy = next(a["content"] for tag, a in read.tags if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    scripts = [text for (tag, text) in read.texts if tag == "script" and not text.startswith("{")]
    assert rules["default-src"] == "'none'"
    assert rules["style-src"].split() == [hashed(text) for text in read.of("style")]
    assert rules["script-src"].split() == [hashed(text) for text in scripts]
    assert [name for _, a in read.tags for name in a if name == "style" or name.startswith("on")] == []


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_a_hostile_name_stays_text() -> None:
    text = written(drawn.hostile())
    read = Read(text)

    data = json.loads(next(script for script in read.of("script") if script.startswith('{"length"')))
    assert "img" not in {tag for tag, _ in read.tags}
    assert "49" not in re.findall(r"\{\{.*?\}\}|49", read.shown)
    assert not re.search("[\u0000\u2028\u202a-\u202e\u2066-\u2069]", text)
    assert r"\u202e\x00[red]&amp;" in data["labels"][1][1]
    assert read.shown.count("onerror=alert(1)") > 10


def test_the_answer_is_read_without_scripts() -> None:
    shown = Read(written(drawn.drawn())).shown

    for part in (
        "data-bound",
        "42.0 % of the device step waits for data",
        "174.0 ms",
        "data wait 69.0 ms 39.7 %",
        "TrainingArguments(..., dataloader_num_workers=8, dataloader_pin_memory=True)",
        "up to 1.7x",
        "attention is 0.0 % of the device step",
        "record_shapes=True 2 rules",
        "rank 1 is late because of its data",
        "Step 12 of rank 0, the one of median length: 174.0 ms",
        "nvjet_tst_128x256_64x4_TNT",
        "data_wait_share 39.7 % the device step",
        "1,234 events; 4.8 MiB of 381.5 MiB; the file ends early",
        "torch 2.9.1",
        "1.2.3, schema version",
        "diagnose analyze run/",
    ):
        assert part in shown, part


def test_the_post_mortem_is_read_without_scripts() -> None:
    shown = Read(written(drawn.joined())).shown

    for part in (
        "History: since step 8,123: 14 % slower on node0",
        "Straggler: rank 1 on node0 is late because of its data; each other rank waits 12.0 ms per step for it",
        "it costs the job 8.3 GPU-hours per day, 20.70 at the stated price; 15.0 ms more",
        "Missing: no trace of rank 6, 7 of 8; the late rank may be among them",
        "Mismatch: rank 1 on node0 has 3 fewer",
        "Passing: rank 4 on node2 held up 2 steps because of garbage collection",
        "rank 1 on node0 persistent data wait 15.0 ms, matrix products 1.0 ms 8 6.9 % 94.7 % 8.3 20.70",
        "node0 2 7.8 0.0 0.0 0.0 92.2 0.0 3.4 node1 2 6.9 0.0 0.0 0.0 93.1 0.0 6.9",
        "allreduce 1 group node 25.0 MiB 6 12 200.0 us 50.0 us 3.1 % 131.1 GB/s 255.0 GB/s",
        "allreduce 1 group nodeb unknown 6 12 200.0 us 50.0 us 3.1 % unknown unknown",
        "1 by a model",
        "no straggler no rank is late; saves at least 9.7 GPU-hours per day 1.07-1.09x",
        "by a replay of all ranks together; unchanged, it is at most 1.2 % off the measured step of a rank",
        "Clocks: 6 ranks aligned: up to 5.0 us apart, residual 305 ns",
        "rank 5 5.0 us 1.25 ppm 305 ns",
    ):
        assert part in shown, part


def test_a_gain_stands_in_its_own_words_without_a_second_pair_of_parentheses() -> None:
    gains = re.findall(r'<span class="gain[^"]*">([^<]*)', written(sample("synthetic-straggler")))

    assert gains
    assert [gain for gain in gains if gain.startswith("(") or "))" in gain] == []


def test_ranks_without_a_trace_stand_with_the_verdict() -> None:
    shown = Read(written(drawn.joined())).shown

    assert shown.index("Missing: no trace of rank 6, 7 of 8") < shown.index("Where the step goes")


def test_without_a_post_mortem_nothing_is_said_of_it() -> None:
    shown = Read(written(replace(drawn.joined(), postmortem=None))).shown

    assert "matrix products" in shown
    for part in ("Late ranks, and", "Missing:", "Hosts:", "Collectives,", "Clocks:", "whole job"):
        assert part not in shown, part


def test_why_nothing_is_predicted_of_the_whole_job_is_said() -> None:
    job = drawn.joined()
    assert job.postmortem is not None
    found = replace(job.postmortem, changes=(), changes_error=0.3, no_changes_because="the replay is 30 % off")

    shown = Read(written(replace(job, postmortem=found))).shown
    assert "Whole job: nothing is predicted: the replay is 30 % off." in shown
    assert "What the whole job would gain" not in shown


@pytest.mark.long
@pytest.mark.parametrize("name", ["synthetic-straggler", "synthetic-healthy-8"])
def test_a_page_of_a_sample_is_small(name: str) -> None:
    assert len(written(sample(name)).encode()) < 500_000


def test_a_page_of_the_largest_diagnosis_stays_below_three_megabytes() -> None:
    many = tuple(drawn.kernel(f"{i}" + "<&>" * 650, 1000) for i in range(201))
    slices = [(i / 20, 0.02, 1, 1) for i in range(3000)]
    full = replace(drawn.timeline(), lanes=(drawn.lane("stream 7", "stream", *slices),))
    job = drawn.joined("<&>" * 20)
    assert job.postmortem is not None
    ranks = tuple(replace(job.ranks[0], rank=rank, host=f"{rank}" + "<&>" * 20) for rank in range(1024))
    found = replace(
        job.postmortem,
        mismatches=job.postmortem.mismatches * 1024,
        passing=job.postmortem.passing * 1024,
        traffic=job.postmortem.traffic * 1024,
        clocks=job.postmortem.clocks * 1024,
    )
    assert job.job_timeline is not None
    steps = tuple(replace(step, waiting_shares=(0.25,) * 1024) for step in job.job_timeline.steps)
    of_ranks = replace(job.job_timeline, steps=steps)
    job = replace(job, ranks=ranks, stragglers=job.stragglers * 64, postmortem=found, job_timeline=of_ranks)
    largest = replace(job, kernels=many, timeline=full)

    assert len(written(largest).encode()) < 3_000_000


def test_the_same_diagnosis_makes_the_same_page() -> None:
    assert written(drawn.drawn()) == written(drawn.drawn())


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("volta_sgemm_128x32_nt", "volta_sgemm_128x32_nt"),
        ("void at::native::foo<4, at::native::add(int)>(int, float)", "foo<4, add(int)>"),
        ("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD"),
        ("(anonymous namespace)::k(int)", "k"),
        ("", ""),
    ],
)
def test_a_short_name_drops_namespaces_and_arguments(name: str, short: str) -> None:
    assert short_name(name) == short
