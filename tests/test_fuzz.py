"""Random damage, bombs and hostile names: an answer or a refusal, in bounded time and memory, and nothing else."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from kineto import Trace as Job
from test_trace_reader import KERNEL, saved

from diagnose.analysis import analyze
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import read, source

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
ESCAPE = "\x1b]0;owned\x07\x1b[2J"
HOSTILE = ["[bold red]x[/]", ESCAPE, "../../etc/passwd", "\u202egnp.exe", "a\r\nverdict: fine", "%s%n{0}", "\ud800"]


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_hundred_damaged_traces(seed: int) -> None:
    from fuzz import failed, fuzz

    result = fuzz(100, seed)
    assert not failed(result), result
    assert len(result["endings"]) > 1


def test_a_size_beyond_all_numbers_is_no_size(tmp_path: Path) -> None:
    job = Job()
    with job.step():
        job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
        job.op("aten::mm", [[128, 64], [64, 64]], kernel="gemm", gpu_us=40)
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(job.json()).replace("[[128,", "[[641e308,"))

    assert analyze(path).steps.count == 1


def test_the_fuzzer_tells_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    import fuzz

    monkeypatch.setattr(fuzz, "analyze", lambda path: 1 / 0)
    assert fuzz.failed(fuzz.fuzz(2, 1))


@pytest.mark.parametrize("number", range(20))
def test_damage_through_the_command_line(number: int, tmp_path: Path) -> None:
    from fuzz import damaged, job_of

    seeded = random.Random(number)
    path = saved(tmp_path / "trace.json", damaged(seeded, job_of(seeded)))
    done = CliRunner().invoke(main, ["analyze", str(path), "--details"])
    assert done.exit_code in (0, 3)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    assert "\x1b" not in done.output


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


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
@pytest.mark.parametrize("options", [["--details"], ["--quiet"], ["--json"]], ids=" ".join)
def test_names_of_a_trace_do_nothing(name: str, options: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["analyze", str(saved(tmp_path / "trace.json", hostile_job(name))), *options])
    assert (done.exit_code, done.exception) == (0, None)
    assert "\x1b" not in done.output
    assert "\nverdict: fine" not in done.output


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
