"""benchmarks/gpu: parts in processes with limits, what is done is kept, and reports of what was found."""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from calls import BUDGETS, Part, parts_of
from drive import Call
from fault_table import FAULTS, options_of
from needs import needs
from ready import of
from reduce import reduced
from reports import NOT_YET, REPORTS, page, written
from returned import FILES, MOST_BYTES, pack
from told_pages import read

ROOT = Path(__file__).parent.parent
KIT = ROOT / "benchmarks" / "gpu"


def python(name: str, body: str, limit_s: float = 60) -> Part:
    return Part(name, (sys.executable, "-c", body), limit_s, 0)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    return begun(tmp_path, monkeypatch)


def begun(folder: Path, monkeypatch: pytest.MonkeyPatch, budget: float = 60) -> Call:
    for name in ("OUT", "WORK"):
        (folder / name).mkdir(exist_ok=True)
        monkeypatch.setenv(name, str(folder / name))
    monkeypatch.delenv("TINY", raising=False)
    asked = SimpleNamespace(call="1", repo=folder, began=time.time(), budget=budget, again=False)
    return Call(asked)  # type: ignore[arg-type]


def ends(call: Call) -> dict[str, str]:
    return {row["part"]: row["end"] for row in call.rows}


def state(process: str) -> str:
    """What the kernel says of the process; "gone" where it knows none."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "gone"


def test_what_a_part_found_and_how_it_failed_is_told_at_once(call: Call) -> None:
    call.run(python("good", "import os; open(os.environ['RESULT'], 'w').write('{\"is\": 7}')"))
    call.run(python("bad", "import sys; sys.exit('why')"))

    told = json.loads(call.summary.read_text())
    assert ends(call) == {"good": "ended", "bad": "ended with 1"}
    assert told["found"] == {"good": {"is": 7}}
    assert told["failed"]["bad"].endswith("why\n")


def test_a_second_call_repeats_what_failed_and_nothing_that_ended(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [python("good", ""), python("bad", "raise SystemExit(3)")]
    for part in parts:
        call.run(part)
    call.keep()

    again = begun(tmp_path, monkeypatch)
    for part in parts:
        again.run(part)

    assert ends(again) == {"good": "ended before", "bad": "ended with 3"}


def test_nothing_that_a_part_started_outlasts_its_limit(call: Call) -> None:
    child = "import subprocess, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"

    call.run(python("slow", child, 3))

    assert ends(call) == {"slow": "stopped after 3 s"}
    started = (call.logs / "slow.log").read_text().splitlines()[-1]
    assert state(started) in ("gone", "Z")


def test_a_budget_that_is_spent_leaves_parts_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = begun(tmp_path, monkeypatch, budget=0.001)

    spent.run(Part("any", (sys.executable, "-c", ""), 60, 1))

    assert ends(spent) == {"any": "no time left"}


@pytest.mark.parametrize("tiny", [False, True])
@pytest.mark.parametrize("number", BUDGETS)
def test_every_part_has_a_name_and_a_script_that_is_there(number: str, tiny: bool, tmp_path: Path) -> None:
    found = list(parts_of(number, ROOT, tmp_path, tiny))

    assert len({part.name for part in found}) == len(found)
    assert all(Path(word).is_file() for part in found for word in part.words if word.endswith(".py"))
    assert all(part.least_s <= part.limit_s <= BUDGETS[number] for part in found)


def test_no_more_comes_back_than_eight_files_of_sixteen_mebibytes(tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / "work"
    out.mkdir()
    for number in range(12):
        trace = work / "captures" / str(number) / "rank0.json.gz"
        trace.parent.mkdir(parents=True)
        with trace.open("wb") as file:
            file.truncate(9_000_000)  # two do not fit into one file
    (work / "results").mkdir()
    (work / "results" / "part.json").write_text("{}")

    pack(out, work, "1", lambda path: True)

    sizes = [path.stat().st_size for path in out.iterdir()]
    assert len(sizes) == FILES
    assert max(sizes) <= MOST_BYTES + 20_000


def test_a_remedy_changes_what_the_fault_says_and_is_no_fault_itself() -> None:
    for name, fault in FAULTS.items():
        slow, fast = options_of(fault, tiny=False)
        changed = {key for key in slow if slow[key] != fast[key]}
        assert changed <= {*fault.fast, "env", "unset"}, name
        assert bool(changed) == bool(fault.right), name


def test_a_small_trace_holds_whole_steps_what_runs_meanwhile_and_no_path(tmp_path: Path) -> None:
    steps = [
        {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{n}", "ts": n * 100, "dur": 90} for n in (1, 2)
    ]
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "l", "ts": 210, "dur": 1, "args": {"correlation": 5}}
    kernels = [
        {"ph": "X", "cat": "kernel", "name": name, "ts": ts, "dur": 20, "args": {"correlation": number}}
        for name, ts, number in (("before", 110, 3), ("meanwhile", 195, 4), ("late", 400, 5))
    ]
    events = [*steps, launch, *kernels, {"ph": "M", "name": "n", "args": {"file": "/home/someone/job.py"}}]
    trace = {"traceName": "/a/b/c.json", "traceEvents": events}

    (tmp_path / "t.json.gz").write_bytes(gzip.compress(json.dumps(trace).encode()))

    told = reduced(tmp_path / "t.json.gz", tmp_path / "small.json.gz", most=1)

    kept = json.loads(gzip.decompress((tmp_path / "small.json.gz").read_bytes()))
    assert told["steps"] == 1
    assert [event["name"] for event in kept["traceEvents"]] == ["ProfilerStep#2", "l", "meanwhile", "late", "n"]
    assert kept["traceEvents"][-1]["args"] == {"file": "job.py"}
    assert "traceName" not in kept


FAULT = {
    "class": "host-bound", "class right": True, "next": "launch-bound", "advice right": False, "among findings": True,
    "promised": [1.1, 1.2], "achieved": 1.5, "inside": False, "truth": [["host-bound"], ["gc-pauses"]],
    "times": {"slow": {"step_ms": 3.0}, "fast": {"step_ms": 2.0}, "probed": {"step_ms": 3.3}}, "probed / slow": 1.1,
}  # fmt: skip


def test_a_report_says_where_the_tool_was_wrong_and_from_which_call_it_knows(tmp_path: Path) -> None:
    summary = {
        "call": "3", "tiny": False, "commit": "abc", "at": "2026-01-02T03:04:05", "parts": [], "failed": {},
        "found": {"faults": {"rows": {"garbage": FAULT}}, "peaks": {"device": "NVIDIA X1"}},
    }  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps(summary))
    calls = [read(tmp_path / "s.json")]

    text = written(next(report for report in REPORTS if report.name == "faults-gpu"), calls)

    assert text.startswith("# Known faults, 2026-01-02\n\nOn NVIDIA X1.\nCommit `abc`, call 3 of")
    assert "| garbage | host-bound | yes | launch-bound | **no** | yes | 1.10-1.20x | 1.50x | **no** |" in text
    assert "- garbage: the first advice was launch-bound; right is gc-pauses, told further down" in text
    assert "## Known faults" in page(calls, None, "2026-01-02")


def test_a_page_of_no_call_says_how_to_run_one() -> None:
    assert NOT_YET in page([], None, "")


def test_what_is_built_is_known_by_its_sources(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    source.write_text("1")
    before = of([source])

    assert of([source]) == before
    source.write_text("22")
    assert of([source]) != before


@pytest.mark.long
@pytest.mark.capture
def test_a_part_runs_on_a_cpu(tmp_path: Path) -> None:
    needs("torch", "packaging")
    env = {**os.environ, "TINY": "1", "OUT": str(tmp_path), "WORK": str(tmp_path / "w"), "CUDA_VISIBLE_DEVICES": ""}
    env.pop("PYTHONSAFEPATH", None)
    words = [
        sys.executable,
        str(KIT / "drive.py"),
        "4",
        "--only",
        "peaks",
        "--repo",
        str(ROOT),
        "--began",
        str(time.time()),
    ]

    words += ["--began", str(time.time())]

    done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "summary-call4.json").read_text())["found"]["peaks"]
    assert found["device"] == "CPU"
    assert all(value > 0 for value in found["memory, bytes/s"].values())
    assert "| memory | copy |" in done.stdout


@pytest.mark.long
@pytest.mark.capture
def test_the_small_model_trains_on_ids_and_on_texts() -> None:
    needs("torch", "transformers", "accelerate")
    job = str(ROOT / "benchmarks" / "advice_jobs" / "causal_lm.py")
    for more in (["words=100"], []):
        words = [sys.executable, job, "model=tiny", "length=32", "batch=2", "steps=12", *more]
        env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
        done = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
        assert "mean_step_ns" in done.stdout, done.stderr
