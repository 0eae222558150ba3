"""What libraries announce, and how a job without optimizer steps ends, in real runs of `diagnose run`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from capture.scripts import HOOKS, run
from needs import needs

needs("torch")
pytestmark = pytest.mark.capture
JOBS = Path(__file__).parent / "jobs"
ACCUMULATES = (JOBS / "accumulates.py").read_text()
PATIENCE_S = 300
DIAGNOSE = (sys.executable, "-m", "diagnose", "run", "--no-ledger", "--no-report", "--no-sampling", "--out", "out")
PLAIN = {name: value for name, value in os.environ.items() if name not in ("PYTHONWARNINGS", "DIAGNOSE_LEDGER")}


def ended(*words: str, here: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(words, cwd=here, env=PLAIN, capture_output=True, text=True, timeout=PATIENCE_S)


def captured(job: str, *words: str, here: Path) -> "subprocess.CompletedProcess[str]":
    return ended(*DIAGNOSE, "--", sys.executable, str(JOBS / job), *words, here=here)


def record(here: Path) -> Any:
    return json.loads((here / "out" / "capture-rank0.json").read_text())


def last_line(done: "subprocess.CompletedProcess[str]") -> str:
    return done.stderr.splitlines()[-1]


def of_the_job(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line and not line.startswith(("diagnose: ", "USDT:"))]


def slow(*case: object) -> object:
    """A case that is near another one: it runs where there is time."""
    return pytest.param(*case, marks=pytest.mark.slow)


@pytest.mark.parametrize("flags", [(), slow(("-Wignore",)), slow(("-Walways",)), ("-Werror",), slow(("-X", "dev"))])
def test_a_job_that_warns_and_logs_prints_what_it_prints_alone(tmp_path: Path, flags: tuple[str, ...]) -> None:
    job = [sys.executable, *flags, str(JOBS / "says_much.py")]

    alone = ended(*job, here=tmp_path)
    under = ended(*DIAGNOSE, "--", *job, here=tmp_path)

    assert ("print_stack" in alone.stdout) == ("-Werror" not in flags)
    assert (under.returncode, under.stdout) == (alone.returncode, alone.stdout)
    assert of_the_job(under.stderr) == of_the_job(alone.stderr)


def test_known_messages_that_were_let_through_are_in_the_record(tmp_path: Path) -> None:
    captured("says_much.py", here=tmp_path)

    announced = {each["message"]: each for each in record(tmp_path)["announced"]}
    assert set(announced) == {
        "more-workers-than-cores",
        "tf32-not-enabled",
        "reference-implementation",
        "recompile-limit",
    }
    fallback = announced["reference-implementation"]
    assert (fallback["what"], fallback["packages"]) == ("chunk_gated_delta_rule", ["flash-linear-attention"])
    assert announced["more-workers-than-cores"]["what"] == "2"


def test_a_loop_without_an_optimizer_ends_its_steps_by_backward_passes(tmp_path: Path) -> None:
    job = HOOKS + (JOBS / "no_torch_optimizer.py").read_text().replace("int(sys.argv[1])", "60")
    alone = run(job, tmp_path / "alone")
    done = run(job, tmp_path, {})

    assert (done.returncode, done.stdout) == (0, alone.stdout)
    assert record(tmp_path)["steps"]["source"] == "backward"
    assert (tmp_path / "out" / "rank0.json.gz").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("1", "--crash"), "your command ended with 1 before a step, after 1 backward pass"),
        (
            ("3",),
            "3 backward passes and no optimizer step: wrap the loop in diagnose.probes.profile, or pass --step-on",
        ),
        (("8",), "before a step was recorded: the window needs 16; in so few it opens with --at-step 2 --steps 4"),
        (("0",), "no backward pass, no optimizer step and no batch of a DataLoader was seen"),
    ],
)
def test_the_last_line_says_why_no_window_came(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    done = captured("no_torch_optimizer.py", *words, here=tmp_path)

    assert says in last_line(done)
    assert done.returncode == int("--crash" in words)


@pytest.mark.parametrize(
    ("window", "source"),
    [
        ({}, "optimizer"),
        ({"step_on": "backward"}, "backward"),
    ],
)
def test_who_accumulates_gradients_has_steps_of_the_optimizer_unless_others_are_asked_for(
    tmp_path: Path, window: dict[str, object], source: str
) -> None:
    run(HOOKS + ACCUMULATES, tmp_path, window)

    assert record(tmp_path)["steps"]["source"] == source


def test_an_optimizer_that_comes_late_takes_the_steps_over(tmp_path: Path) -> None:
    run(HOOKS + "import sys; sys.argv.append('later')\n" + ACCUMULATES, tmp_path, {})

    records = [json.loads(path.read_text()) for path in tmp_path.glob("out*/capture-rank0.json")]
    assert "optimizer" in {each["steps"]["source"] for each in records}
