"""Mutated inputs, bombs and hostile names: an answer or a refusal, in bounded time and memory, and nothing else."""

import gzip
import json
import random
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from kineto import Trace as Job
from robustness import fuzzing
from robustness.fuzzing import beside, checks, running, seeds, values, written
from trace_files import KERNEL, saved

from diagnose.analysis import analyze
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import read, source

ESCAPE = "\x1b]0;owned\x07\x1b[2J"
HOSTILE = ["[bold red]x[/]", ESCAPE, "../../etc/passwd", "\u202egnp.exe", "a\r\nverdict: fine", "%s%n{0}", "\ud800"]


KEPT = sorted(path.parent for path in (Path(__file__).parent / "fuzzed").glob("*/case.json"))


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 6))])
def test_tries_of_every_kind(seed: int) -> None:
    tally = running.fuzz(range(80), seed)
    assert not tally.failed, tally.defects
    assert {end for _, end in tally.outcomes} == {"read", "refused"}
    assert len({kind for kind, _ in tally.outcomes}) > 5


@pytest.mark.long
@pytest.mark.parametrize("kept", KEPT, ids=lambda folder: folder.name)
def test_what_was_found_once_stays_mended(kept: Path, tmp_path: Path) -> None:
    assert fuzzing.outcome_of(fuzzing.loaded(kept), tmp_path).name in ("read", "refused")


@pytest.mark.parametrize("kind", fuzzing.KINDS)
def test_the_same_try_is_the_same_case(kind: str) -> None:
    assert running.case_of(3, 7, kind) == running.case_of(3, 7, kind) != running.case_of(3, 8, kind)


@pytest.mark.long
@pytest.mark.parametrize("number", range(8))
def test_what_the_mutations_begin_with_is_sound(number: int, tmp_path: Path) -> None:
    """Else a try says nothing about its mutation."""
    seeded = random.Random(number)
    files = {f"rank{rank}.json": json.dumps(one).encode() for rank, one in enumerate(seeds.ranks(seeded))}
    own = {"capture-rank0.json": json.dumps(beside.record(seeded)).encode()}
    log = {"log.jsonl": "\n".join(map(json.dumps, beside.steps_table(seeded))).encode()}
    rule = beside.rule_files()[number]
    rules = {f"rules/{rule.name}": values.toml(tomllib.loads(rule.read_text(encoding="utf-8"))).encode()}
    patch = {"patch.json": json.dumps(beside.patch(seeded)).encode()}
    for case in (
        fuzzing.Case("job", ("analyze", "@", "--json"), files | own),
        fuzzing.Case("series", ("series", "@log.jsonl", "--json"), log),
        fuzzing.Case(
            "series",
            ("series", "@trainer_state.json"),
            {"trainer_state.json": json.dumps(beside.trainer_state(seeded)).encode()},
        ),
        fuzzing.Case("rule", ("rules", "--rules", "@rules"), rules),
        fuzzing.Case("patch", ("@patch.json",), patch, "patch"),
    ):
        assert fuzzing.outcome_of(case, tmp_path).name == "read"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["nsight", "execution", "monitored", "text log", "pipeline", "tune"])
def test_what_is_not_mutated_is_read(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in (fuzzing.recorders, fuzzing.told, written):
        monkeypatch.setattr(module, "mutated", lambda _seeded, tree, most=3: tree)
    for module in (fuzzing.told, written):
        monkeypatch.setattr(module, "damaged", lambda _seeded, text: text)
    monkeypatch.setattr(fuzzing.recorders, "mutate", lambda _seeded, tree: None)

    for number in range(4):
        case = running.case_of(5, number, kind)
        assert fuzzing.outcome_of(case, tmp_path).name == "read", case.arguments


@pytest.mark.parametrize("tool", fuzzing.told.ASKED)
def test_a_question_that_is_not_mutated_is_answered(tool: str, tmp_path: Path) -> None:
    case = fuzzing.Case("agent", (tool, json.dumps(fuzzing.told.ASKED[tool])), fuzzing.told.files_of_agent(), "agent")

    assert fuzzing.outcome_of(case, tmp_path).name == "read"


def small_case() -> fuzzing.Case:
    return fuzzing.Case(
        "trace", ("analyze", "@trace.json", "--json"), {"trace.json": json.dumps(hostile_job("gemm")).encode()}
    )


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("diagnose.analysis.job.find_run", "ZeroDivisionError in"),
        ("diagnose.judge.judge.waterfall_of", "ZeroDivisionError in"),
    ],
)
def test_the_fuzzer_tells_a_defect(broken: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken, lambda *_: 1 / 0)
    end = fuzzing.outcome_of(small_case(), tmp_path)
    assert end.is_defect
    assert says in end.name


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no JSON"),
        ('{"a": NaN}', "NaN is no JSON"),
        ("{}", "not by the types"),
    ],
)
def test_a_report_that_is_none_is_told(text: str, says: str) -> None:
    with pytest.raises(checks.Wrong, match=says):
        checks.check_diagnosis(text, thorough=True)


def test_a_ledger_that_does_not_add_up_is_told(tmp_path: Path) -> None:
    found = analyze(saved(tmp_path / "trace.json", hostile_job("gemm")))
    checks.check_diagnosis(found.to_json(), thorough=True)
    short = msgspec.structs.replace(found, ledger=found.ledger[1:])
    with pytest.raises(checks.Wrong, match="ledger does not add up"):
        checks.check_diagnosis(short.to_json(), thorough=True)


@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_a_number_that_is_none_is_told_before_json_hides_it(value: float, tmp_path: Path) -> None:
    found = analyze(saved(tmp_path / "trace.json", hostile_job("gemm")))
    checks.check_finite(found)
    with pytest.raises(checks.Wrong, match=r"Mfu\.value"):
        checks.check_finite(msgspec.structs.replace(found, mfu=msgspec.structs.replace(found.mfu, value=value)))


@pytest.mark.parametrize("text", ["a bug in diagnose, in METRIC", "\x1b[2J", "Traceback (most recent call last):"])
def test_a_page_that_hides_a_failure_is_told(text: str) -> None:
    checks.check_text("steps: 4")
    with pytest.raises(checks.Wrong):
        checks.check_text(f"steps: 4 {text}")


def test_the_smallest_case_is_what_is_kept(tmp_path: Path) -> None:
    def fails(case: fuzzing.Case) -> bool:
        return b"aten::mm" in case.files.get("trace.json", b"")

    events = [{"name": f"op{number}", "args": {"n": number}} for number in range(100)]
    events[60] = {"name": "aten::mm", "dur": 5}
    files = {"trace.json": json.dumps({"traceEvents": events, "rank": 1}).encode(), "other.json": b"{}"}
    case = fuzzing.Case("trace", ("analyze", "@trace.json", "--json", "--html", "@out/p.html"), files)

    small = fuzzing.minimised(case, fails)

    assert json.loads(small.files["trace.json"]) == {"traceEvents": [{"name": "aten::mm"}]}
    assert list(small.files) == ["trace.json"]
    assert small.arguments == ("analyze", "@trace.json", "--json")
    fuzzing.saved(small, tmp_path / "kept", "DEFECT x")
    assert fuzzing.loaded(tmp_path / "kept") == small


def test_a_process_that_dies_is_a_defect_of_its_try(tmp_path: Path) -> None:
    script = tmp_path / "dies.py"
    script.write_text("import os, sys; open(sys.argv[-1], 'w').write('17'); os.abort()")
    tally = running.fuzz_by_processes(script, 20, 1, 1, [])
    assert tally.defects == [(17, "DEFECT the process ended with -6")]


def test_a_size_beyond_all_numbers_is_no_size(tmp_path: Path) -> None:
    job = Job()
    with job.step():
        job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
        job.op("aten::mm", [[128, 64], [64, 64]], kernel="gemm", gpu_us=40)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(job.json()).replace("[[128,", "[[641e308,"))

    assert analyze(path).steps.count == 1


def hostile_job(name: str) -> dict[str, Any]:
    job = Job()
    for _ in range(3):
        with job.step(), job.annotation(name, us=50):
            job.op(name, [[64, 64], [64, 64]], kernel=name, gpu_us=40)
            job.copy(4096)
    document = job.json()
    document["distributedInfo"] = {"rank": 0, "world_size": 1, "backend": name}
    document["deviceProperties"][0]["name"] = name
    return document


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("options", [["--details"], ["--quiet"], ["--json"]], ids=" ".join)
def test_names_of_a_trace_do_nothing(name: str, options: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["analyze", str(saved(tmp_path / "trace.json", hostile_job(name))), *options])
    assert (done.exit_code, done.exception) == (0, None)
    assert "\x1b" not in done.output
    assert "\nverdict: fine" not in done.output


@pytest.mark.long
@pytest.mark.parametrize("name", ["[bold]x.json", f"{ESCAPE}.json", "-rf.json", "a\nb.json", "\u202ex.json"], ids=ascii)
def test_names_of_files_do_nothing(name: str, tmp_path: Path) -> None:
    saved(tmp_path / name, hostile_job("gemm"))
    for arguments in (["--details", str(tmp_path / name)], [str(tmp_path)]):
        done = CliRunner().invoke(main, ["analyze", *arguments])
        assert done.exit_code == 0
        assert "\x1b" not in done.output


def test_a_bomb_of_sound_events_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "BOMB_BYTES", 4 << 20)
    event = json.dumps(KERNEL).encode()
    bomb = gzip.compress(b'{"traceEvents": [' + b",".join(100_000 * [event]) + b"]}", 9)
    assert len(bomb) < 100_000
    monkeypatch.setattr(source, "BOMB_RATIO", 50)
    with pytest.raises(UserError, match="unpacks without end"):
        read(saved(tmp_path / "bomb.json.gz", bomb))


def test_a_trace_that_packs_well_is_no_bomb(tmp_path: Path) -> None:
    event = json.dumps(KERNEL).encode()
    packed = gzip.compress(b'{"traceEvents": [' + b",".join(50_000 * [event]) + b"]}", 9)
    assert len(read(saved(tmp_path / "trace.json.gz", packed))) == 50_000
