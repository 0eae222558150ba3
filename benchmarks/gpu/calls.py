"""The parts of each call, in the order of their value."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PYTHON = sys.executable
DIAGNOSE = (PYTHON, "-m", "diagnose")
KIT = Path(__file__).parent
LIGER = "liger=true"  # its kernels need a GPU
BF16 = ("precision=bf16", "mixed=bf16", "batch=7")
CAPTURES = {
    "eager": BF16,
    "sdpa": (*BF16, "attention=sdpa"),
    "sdpa-liger": (*BF16, "attention=sdpa", LIGER),
    "opt-liger": (*BF16, "attention=sdpa", "model=opt-1.3b", LIGER),
    "compiled": (*BF16, "attention=sdpa", "compiles=true"),
    "checkpointed": (*BF16, "attention=sdpa", "checkpoints=true"),
}
LEFT_OUT = (PYTHON, "-c", "print('left out: torch before 2.5 does not compile the masks of transformers')")
TINY = ("model=tiny", "length=64", "batch=2", "precision=fp32", "mixed=no")
BUDGETS = {"1": 560.0, "2": 545.0, "3": 480.0, "4": 560.0}  # seconds


@dataclass(frozen=True)
class Part:
    """One process: its name, its words, the most seconds that it may take, and the least with which it is begun."""

    name: str
    words: tuple[str, ...]
    limit_s: float
    least_s: float = 20.0


def parts_of(call: str, repo: Path, work: Path, tiny: bool) -> Iterator[Part]:
    """What the call runs; the machine says in each what it is."""
    yield Part("environment", script("environment"), 40, 5)
    yield from {"1": first, "2": second, "3": third, "4": fourth}[call](repo, work, tiny)


def masks_compile() -> bool:
    """Whether torch.compile takes the attention masks of transformers, as torch before 2.5 does not."""
    major, minor = version("torch").split(".")[:2]
    return (int(major), int(minor)) >= (2, 5)


def script(name: str, *words: object) -> tuple[str, ...]:
    """A script beside this one."""
    return (PYTHON, str(KIT / f"{name}.py"), *map(str, words))


def job(repo: Path, tiny: bool, *options: str) -> tuple[str, ...]:
    """A training job under transformers' Trainer; of two options of one name the last counts."""
    kept = tuple(option for option in options if option != LIGER) if tiny else options
    return (PYTHON, str(repo / "benchmarks" / "advice_jobs" / "causal_lm.py"), *kept, *(TINY if tiny else ()))


def capture(repo: Path, work: Path, tiny: bool, name: str, limit_s: float) -> Part:
    """One capture of a job."""
    stem = work / "captures" / name
    asked = ("run", "--stop", "--no-ledger", "--out", str(stem), "--json", f"{stem}.json")
    return Part(f"capture-{name}", (*DIAGNOSE, *asked, "--", *job(repo, tiny, *CAPTURES[name])), limit_s, 35)


def first(repo: Path, work: Path, tiny: bool) -> Iterator[Part]:
    """Each path that only runs with CUDA, captures, largest batches, what the probe costs."""
    yield Part("doctor", (*DIAGNOSE, "doctor"), 45, 5)
    yield Part("cuda-paths", script("cuda_paths"), 100, 20)
    yield from (capture(repo, work, tiny, name, 90) for name in ("eager", "sdpa", "sdpa-liger"))
    yield Part("captures", script("captures", work), 40, 5)
    yield Part("limits", script("limits", work), 75, 30)
    yield Part("overhead", script("probe_cost", work), 230, 60)
    yield capture(repo, work, tiny, "opt-liger", 80)
    yield Part("captures-again", script("captures", work), 40, 5)


def second(repo: Path, work: Path, tiny: bool) -> Iterator[Part]:
    """A tune from the slowest form, and the ladder row by row."""
    asked = ("--out", str(work / "tune"), "--runs", "8", "--budget", "290s", "--control", "6", "--steps", "4")
    tuned = job(repo, tiny, "batch=6", "steps=80") if tiny else job(repo, tiny, "batch=6")
    yield Part("tune", (*DIAGNOSE, "tune", *asked, "--allow-numerics", "--no-ledger", "--", *tuned), 320, 90)
    yield Part("tune-told", script("tune_told", work / "tune"), 20, 5)
    yield Part("ladder", script("ladder_rows", repo, work / "ladder"), 260, 40)


def third(_repo: Path, work: Path, _tiny: bool) -> Iterator[Part]:
    """Known faults, as many as there is time for."""
    yield Part("faults", script("faults", work / "faults", "first"), 460, 40)


def fourth(repo: Path, work: Path, tiny: bool) -> Iterator[Part]:
    """Peaks, `fit`, CUDA graphs, Nsight, more captures, the rest of the faults."""
    yield Part("residue", script("residue"), 70, 20)
    yield Part("graphs", script("graphs", work / "graphs"), 75, 25)
    yield Part("peaks", script("peaks"), 80, 20)
    yield Part("fit", script("fitted", work / "fit"), 170, 40)
    yield Part("nsight", script("nsight", work / "nsight"), 80, 25)
    yield capture(repo, work, tiny, "compiled", 130) if masks_compile() else Part("capture-compiled", LEFT_OUT, 20, 5)
    yield capture(repo, work, tiny, "checkpointed", 130)
    yield Part("captures-more", script("captures", work), 40, 5)
    yield Part("faults-rest", script("faults", work / "faults", "rest"), 150, 40)
    if not tiny:
        tests = (
            "-m",
            "pytest",
            "-q",
            "-m",
            "gpu",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            str(repo),
            str(repo / "tests" / "on_gpu"),
        )
        yield Part("tests", (PYTHON, *tests), 300, 60)
