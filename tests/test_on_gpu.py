"""benchmarks/on_gpu.py: parts in processes with limits, what is done is kept, and no GPU is said."""

import subprocess
import sys
import time
from pathlib import Path

import on_gpu
import pytest
from on_gpu import Part, parts, ran, run_all


def python(name: str, body: str, limit_s: float = 60) -> Part:
    return Part(name, (sys.executable, "-c", body), limit_s)


def state(process: str) -> str:
    """What the kernel says of the process; "gone" where it knows none."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "gone"


def test_each_part_runs_once_and_how_it_ended_is_kept(tmp_path: Path) -> None:
    counts = f"open({str(tmp_path / 'count')!r}, 'a').write('x')"
    chosen = [python("good", counts), python("bad", "import sys; print('why'); sys.exit(3)")]

    first = run_all(chosen, tmp_path, 60)
    again = run_all(chosen, tmp_path, 60)

    assert [(name, end) for name, end, _ in first] == [("good", "ended"), ("bad", "ended with 3")]
    other = run_all([python("other", "")], tmp_path, 60)
    assert [(name, end) for name, end, _ in again] == [("good", "ended"), ("bad", "ended with 3")]
    assert [(name, end) for name, end, _ in other] == [("good", "ended"), ("bad", "ended with 3"), ("other", "ended")]
    assert (tmp_path / "count").read_text() == "x"
    assert (tmp_path / "bad.log").read_text() == "why\n"


def test_nothing_that_a_part_started_outlasts_its_limit(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"

    assert ran(python("slow", child), tmp_path, 3) == "did not end within 3 s"

    started = (tmp_path / "slow.log").read_text().strip()
    assert started
    until = time.monotonic() + 30
    while state(started) not in ("gone", "Z"):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_budget_that_is_spent_leaves_parts_for_the_next_time(tmp_path: Path) -> None:
    assert run_all([python("any", "")], tmp_path, 0.5) == []


@pytest.mark.parametrize("tiny", [False, True])
def test_every_part_has_a_name_and_a_script_that_is_there(tiny: bool, tmp_path: Path) -> None:
    found = list(parts(tmp_path, tiny))

    assert len({part.name for part in found}) == len(found)
    assert all(Path(word).is_file() for part in found for word in part.words if word.endswith(".py"))
    assert any("model=tiny" in part.words for part in found) is tiny


def test_without_a_gpu_the_exit_code_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(on_gpu, "on_gpu", lambda: False)

    assert on_gpu.main(["--out", str(tmp_path)]) == on_gpu.NO_GPU
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.capture
def test_the_small_model_trains_on_ids_and_on_texts() -> None:
    pytest.importorskip("transformers")
    for more in (["words=100"], []):
        words = [sys.executable, on_gpu.JOB, "model=tiny", "length=32", "batch=2", "steps=12", *more]
        done = subprocess.run(words, capture_output=True, text=True, env=on_gpu.environment(), check=False)
        assert "mean_step_ns" in done.stdout, done.stderr
