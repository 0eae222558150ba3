"""All that needs a GPU, one part after the other, each in a process with a limit and a log of its own.

    python benchmarks/on_gpu.py --out FOLDER                  # what is there from before is not run again
    python benchmarks/on_gpu.py --out FOLDER --only tune --budget 540
    python benchmarks/on_gpu.py --out FOLDER --tiny           # a small model, without a GPU and without Liger

Parts: what `doctor` says; the tests that need a GPU; captures of Llama-3.2-1B in the forms that users train it in;
tunes from the slowest form, of a model that Liger does not know and behind a collator that tokenises; the ladder.
`parts.csv` in FOLDER says how each ended, and the logs beside it what it printed. Exit codes: 0 all ended well, 1
some did not, 3 no GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
JOB = str(HERE / "advice_jobs" / "causal_lm.py")
DIAGNOSE = (sys.executable, "-m", "diagnose")
NO_GPU, GRACE_S = 3, 30.0
LIGER = "liger=true"  # its kernels need a GPU
BF16 = ("precision=bf16", "mixed=bf16")
CAPTURES = {
    "eager": (*BF16, "batch=7"),
    "sdpa": (*BF16, "batch=7", "attention=sdpa"),
    "sdpa-liger": (*BF16, "batch=7", "attention=sdpa", LIGER),
    "opt-liger": (*BF16, "batch=7", "attention=sdpa", "model=opt-1.3b", LIGER),
    "compiled": (*BF16, "batch=7", "attention=sdpa", "compiles=true"),
    "checkpointed": (*BF16, "batch=7", "attention=sdpa", "checkpoints=true"),
    "accumulated": (*BF16, "batch=2", "attention=sdpa", "accumulate=4"),
}
TUNES = {
    "worst": ("batch=6",),
    "opt": (*BF16, "batch=4", "model=opt-1.3b"),
    "tokenising": (*BF16, "batch=7", "attention=sdpa", "words=20000"),
}
TINY = ("model=tiny", "length=64", "batch=2", "precision=fp32", "mixed=no")
ENDED = {0: "ended"}


@dataclass(frozen=True)
class Part:
    """One process: its name, what is executed, and the seconds that it may take."""

    name: str
    words: tuple[str, ...]
    limit_s: float


def parts(out: Path, tiny: bool) -> Iterator[Part]:
    """What is run, the cheap and the most telling first."""
    yield Part("doctor", (*DIAGNOSE, "doctor"), 60)
    if not tiny:
        tests = (
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "gpu",
            "-p",
            "no:cacheprovider",
            str(HERE.parent / "tests"),
        )
        yield Part("tests", tests, 540)
    for name, options in CAPTURES.items():
        if tiny and LIGER in options:
            continue
        asked = ("run", "--stop", "--out", str(out / f"capture-{name}"), "--json", str(out / f"capture-{name}.json"))
        yield Part(f"capture-{name}", (*DIAGNOSE, *asked, "--", *_job(options, tiny)), 180)
    for name, options in TUNES.items():
        asked = ("tune", "--out", str(out / f"tune-{name}"), "--runs", "8", "--allow-numerics", "--no-ledger")
        yield Part(f"tune-{name}", (*DIAGNOSE, *asked, "--", *_job(options, tiny)), 540)
    ladder = (sys.executable, str(HERE / "ladder.py"), "--capture", "--out", str(out / "ladder"))
    yield Part("ladder", (*ladder, *(["--tiny"] if tiny else [])), 540)


def _job(options: Sequence[str], tiny: bool) -> tuple[str, ...]:
    """The command of a training job; of two options of one name the last counts."""
    return (sys.executable, JOB, *options, *(TINY if tiny else ()))


def ran(part: Part, out: Path, limit_s: float) -> str:
    """How the part ended; its output is in a log."""
    with (out / f"{part.name}.log").open("wb") as log:
        process = subprocess.Popen(part.words, stdout=log, stderr=log, start_new_session=True, env=environment())
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            end_all(process)
            return f"did not end within {limit_s:.0f} s"
    return ENDED.get(code, f"ended with {code}")


def environment() -> dict[str, str]:
    """That of this process, in which scripts find the modules beside them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}


def end_all(process: subprocess.Popen[bytes]) -> None:
    """Ends the process and those that it started: a job left on the GPU would slow the next part."""
    os.killpg(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def on_gpu() -> bool:
    """Whether torch sees a GPU."""
    import torch

    return bool(torch.cuda.is_available())


def run_all(chosen: Sequence[Part], out: Path, budget_s: float) -> list[tuple[str, str, str]]:
    """Name, end and seconds of each part that was ever run there; those that the budget does not reach are not."""
    table, begun = out / "parts.csv", time.monotonic()
    rows = list(csv.reader(table.read_text().splitlines())) if table.is_file() else []
    done = {row[0]: tuple(row) for row in rows}
    for part in chosen:
        left = budget_s - (time.monotonic() - begun)
        if left < 1 or (part.name in done and done[part.name][1] in ENDED.values()):
            continue
        print(f"{part.name} ...", flush=True)
        since = time.monotonic()
        end = ran(part, out, min(part.limit_s, left))
        done[part.name] = (part.name, end, f"{time.monotonic() - since:.0f}")
        with table.open("w", newline="") as file:
            csv.writer(file).writerows(done.values())
        print(f"{part.name}: {end}, {done[part.name][2]} s", flush=True)
    return [(row[0], row[1], row[2]) for row in done.values()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for and not done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of all that is written")
    parser.add_argument("--only", default="", help="parts whose name holds this text")
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds of all parts together")
    parser.add_argument("--tiny", action="store_true", help="a small model, without a GPU")
    asked = parser.parse_args(arguments)
    if not (asked.tiny or on_gpu()):
        print("torch sees no GPU; --tiny runs the same parts with a small model", file=sys.stderr)
        return NO_GPU
    asked.out.mkdir(parents=True, exist_ok=True)
    chosen = [part for part in parts(asked.out.resolve(), asked.tiny) if asked.only in part.name]
    rows = run_all(chosen, asked.out, asked.budget)
    ended = {name for name, end, _ in rows if end in ENDED.values()}
    return int(any(part.name not in ended for part in chosen))


if __name__ == "__main__":
    sys.exit(main())
