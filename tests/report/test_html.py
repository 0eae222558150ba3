"""The HTML report as text: one file that loads nothing, shows the diagnosis and nothing else, and runs no name."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import diagnoses
import drawn
import msgspec
import pytest
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.facts import duration, spoken
from diagnose.report import html
from diagnose.report.html import About, page
from diagnose.report.html.heat import heat_view
from diagnose.report.html.kernels import short_name
from diagnose.report.views.changes import captures_view
from diagnose.report.views.job_words import waited_share
from diagnose.report.views.ledger import basis, rows

SAMPLES = Path(__file__).parents[2] / "sample_traces"
STATIC = Path(html.__file__).parent / "static"
CASES = [diagnoses.diagnosis, drawn.drawn, drawn.joined, drawn.hostile, diagnoses.undecided]
VOID = {"meta", "br", "input", "link", "img", "hr"}
LOADS = ("src", "href", "xlink:href", "action", "srcset", "data", "poster", "background", "formaction")


class Read(HTMLParser):
    """A page as tags with attributes, and the text in each; a tag that is closed wrongly fails the test."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len({name for name, _ in attrs}), (tag, attrs)
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, *tags: str) -> list[str]:
        return [text for tag, text in self.texts if tag in tags]

    @property
    def shown(self) -> str:
        """What a reader without JavaScript sees."""
        return " ".join(" ".join(text for tag, text in self.texts if tag not in ("style", "script", "title")).split())


def written(diagnosis: Diagnosis) -> str:
    return page(diagnosis, About("1.2.3", "diagnose analyze run/"))


@cache
def sample(name: str) -> Diagnosis:
    return analyze(SAMPLES / name)


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
    for embedded in (STATIC / name for name in ("report.js", "table.js", "timeline.js")):
        assert not re.search(r"https?:|fetch\(|XMLHttp|import\(|innerHTML|eval\(", embedded.read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES)
def test_the_policy_allows_these_styles_and_scripts_and_nothing_else(case: Callable[[], Diagnosis]) -> None:
    read = Read(written(case()))

    policy = next(a["content"] for tag, a in read.tags if a.get("http-equiv") == "Content-Security-Policy")
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    scripts = [text for (tag, text) in read.texts if tag == "script" and not text.startswith('{"length"')]
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
        "at most 1.66x",
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
        "Missing: no trace of rank 6, 7 of 8; who is late may be among them",
        "Mismatch: rank 1 on node0 has 3 fewer",
        "Passing: rank 4 on node2 held up 2 steps because of garbage collection",
        "rank 1 on node0 persistent data wait 15.0 ms, matrix products 1.0 ms 8 6.9 % 94.7 % 8.3 20.70",
        "node0 2 7.8 0.0 0.0 0.0 92.2 0.0 3.4 node1 2 6.9 0.0 0.0 0.0 93.1 0.0 6.9",
        "allreduce 1 group node 25.0 MiB 6 12 200.0 us 50.0 us 3.1 % 131.1 GB/s 255.0 GB/s",
        "allreduce 1 group nodeb unknown 6 12 200.0 us 50.0 us 3.1 % unknown unknown",
        "1 by a model",
        "no straggler no rank is late; saves at least 9.7 GPU-hours per day 1.07-1.09x",
        "by a replay of all ranks together, which unchanged is at most 1.2 % off the measured step of a rank",
        "Clocks: 6 ranks aligned: up to 5.0 us apart, residual 305 ns",
        "rank 5 5.0 us 1.25 ppm 305 ns",
    ):
        assert part in shown, part


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


@pytest.mark.parametrize("name", ["synthetic-memory-bound.json.gz", "synthetic-straggler", "cpu-slow-loader.json.gz"])
def test_every_number_comes_from_the_diagnosis(name: str) -> None:
    diagnosis = sample(name)
    shown, known = numbers_shown(diagnosis), set(spellings(diagnosis))

    wrong = replace(diagnosis, verdict=replace(diagnosis.verdict, because="the step takes 987,654.3 ms"))
    assert [number for number in shown if number not in known] == []
    assert [number for number in numbers_shown(wrong) if number not in known] == ["987,654.3 ms"]


UNIT = r"%|[num]?s|[KMGT]iB|GB/s|TFLOP/s|[kMGTP]?FLOP(?!/)"
NUMBER = re.compile(rf"(?<![\w.,-])\d+(?:,\d{{3}})*(?:\.\d+)?(?: (?:{UNIT})(?![\w/]))?(?!\w|[.,]\d)")


def numbers_shown(diagnosis: Diagnosis) -> list[str]:
    """Numbers with their units in the visible text, without the axes, which have round numbers of their own."""
    text = re.sub(r'<g class="grid".*?</g>|<div class="lane axis".*?</div>', "", written(diagnosis), flags=re.DOTALL)
    return NUMBER.findall(Read(text).shown)


def spellings(diagnosis: Diagnosis) -> Iterator[str]:
    """How the page may spell the numbers of a diagnosis: each by itself, per step, as a share, and what it adds up."""
    of = basis(diagnosis)
    listed = rows(diagnosis.waterfall) + rows(diagnosis.waterfall, details=True)
    values = [*numbers(msgspec.to_builtins(replace(diagnosis, timeline=None))), *sums(diagnosis), of.step_ns]
    values += [value for row in listed for value in (row.ns, row.share)]
    for value in values:
        yield from (f"{value:,.{digits}f}" for digits in (0, 1, 2, 3))
        yield from (f"{100 * value:.1f} %", f"{100 * value:.1f}", spoken(value, "bytes"), of.per_step(int(value)))
        yield from (duration(value), duration(value / max(of.count, 1)), f"{value * 1e-12:,.0f} TFLOP/s")
        yield from (f"{value / 1e9:,.0f} GB/s", f"{value:,.0f} TFLOP/s", spoken(value, "flops"))
        yield f"{value * 1e-12:,.1f} TFLOP/s"
        yield spoken(1e9 * value, "bytes_per_s")
    for text in texts(msgspec.to_builtins(diagnosis)):
        yield from NUMBER.findall(text)
    yield from (str(number) for number in range(1, 11))  # of the points, and of small counts


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from texts(item)
    elif isinstance(value, str):
        yield value


def sums(diagnosis: Diagnosis) -> Iterator[float]:
    """What the page adds up: classes, ranks' other causes, the waits of the step, and what a late rank costs."""
    for ledger in (diagnosis.ledger, *(rank.ledger for rank in diagnosis.ranks)):
        for key in {entry.class_ for entry in ledger}:
            yield sum(entry.share for entry in ledger if entry.class_ == key)
    heat = heat_view(diagnosis)
    for row in heat.rows if heat else ():
        yield 1 - sum(cell.share for cell in row.cells)
    yield from (len(capture.rules) for capture in captures_view(diagnosis))
    step, of = diagnosis.timeline, basis(diagnosis)
    assert step is not None
    yield from (step.step, step.length_ns, step.merged_below_ns, step.lanes_left_out, len(diagnosis.kernels))
    for lane in step.lanes:
        for label in set(lane.label) if lane.kind == "cause" else ():
            own = [i for i, other in enumerate(lane.label) if other == label]
            ns = [lane.length_ns[i] for i in own]
            longest = ns.index(max(ns))
            yield from (sum(ns), sum(ns) / step.length_ns, max(ns), lane.start_ns[own[longest]])
            yield sum(lane.count[i] for i in own)
    for straggler in diagnosis.stragglers:
        share = waited_share(straggler, diagnosis)
        yield from (share, share * of.step_ns)
    found = diagnosis.postmortem
    yield from (len(found.clocks), *(abs(clock.offset_ns or 0) for clock in found.clocks)) if found else ()


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
    largest = replace(job, kernels=many, timeline=full, ranks=ranks, stragglers=job.stragglers * 64, postmortem=found)

    assert len(written(largest).encode()) < 3_000_000


def test_the_same_diagnosis_makes_the_same_page() -> None:
    assert written(drawn.drawn()) == written(drawn.drawn())


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(scheme: str) -> None:
    colours = variables(scheme)

    for text in ("ink", "soft", "link", "good", "bad", "warn"):
        for ground in ("card", "page", "code"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for ground in ("compute", "memory", "communication", "data", "host", "unexplained", "plain"):
        assert contrast("#10131a", colours[ground]) >= 4.5, ground
    for ground, text in heat(scheme):
        assert contrast(text, ground) >= 4.5, (ground, text)


def variables(scheme: str) -> dict[str, str]:
    """The colours of a scheme: dark ones replace light ones."""
    blocks = re.findall(r":root \{(.*?)\}", (STATIC / "report.css").read_text(encoding="utf-8"), re.DOTALL)
    chosen = blocks[: 1 if scheme == "light" else 2]
    return {name: colour for block in chosen for name, colour in re.findall(r"--(\w+): (#\w+)", block)}


def heat(scheme: str) -> list[tuple[str, str]]:
    style = (STATIC / "figures.css").read_text(encoding="utf-8")
    levels = re.findall(r"\.h\d \{ background: (#\w+); color: (#\w+); \}", style)
    assert len(levels) == 16
    return levels[:8] if scheme == "light" else levels[8:]


def contrast(one: str, other: str) -> float:
    """The ratio of relative luminances, as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


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
