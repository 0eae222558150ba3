"""The pages that are looked at as a whole: those with the longest real texts, and each kind of page once.

Those of traces that are not in the repository are there if their folder is.
"""

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import drawn
from compared_runs import kernel, run
from fleets import fleet_at, made_job
from fleets import written as fleet_written
from msgspec.structs import replace
from report.memory_job import job_with_memory
from report.pages import sample, written

from diagnose.analysis import analyze
from diagnose.commands.compare.comparing import compare
from diagnose.commands.compare.html import comparison_page
from diagnose.commands.fleet.html import fleet_page
from diagnose.commands.memory.html import memory_page
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import read
from diagnose.commands.tune.answer import DONE, Measured, Rung, Tuning
from diagnose.commands.tune.html import tuning_page
from diagnose.diagnosis import Diagnosis
from diagnose.report.html import About

ROOT = Path(__file__).parents[2]
ABOUT = About("1.2.3", "diagnose")
LONG = "void cutlass::Kernel<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_32x3_tn_align8>(Params)"
MANY_RANKS = 64


@cache
def measured(name: str) -> Diagnosis:
    """A real capture with stacks of the training thread and the time of every step."""
    return analyze(ROOT / "tests" / "measured" / name)


@cache
def outside(variable: str, name: str) -> Diagnosis:
    return analyze(Path(os.environ[variable]) / name)


def many_ranks() -> Diagnosis:
    of = drawn.joined()
    assert of.job_timeline is not None
    shares = tuple(rank / (2 * MANY_RANKS) for rank in range(MANY_RANKS))
    steps = tuple(replace(step, waiting_shares=shares) for step in of.job_timeline.steps)
    ranks = tuple(replace(of.ranks[rank % 6], rank=rank, host=f"node{rank // 8}") for rank in range(MANY_RANKS))
    job_timeline = replace(of.job_timeline, steps=steps, ranks_left_out=MANY_RANKS - 2)
    return replace(of, ranks=ranks, job_timeline=job_timeline)


def of_long_kernels() -> str:
    kernels = tuple(kernel(f"{LONG}{i}", 10 + i) for i in range(10))
    return comparison_page(compare(run(100, 101, 99, kernels=kernels), run(80, 81, 79)), ABOUT)


def of_two_runs() -> str:
    return comparison_page(compare(sample("cpu-slow-loader.json.gz"), sample("cpu-healthy.json.gz")), ABOUT)


def of_twelve_runs() -> str:
    return tuning_page(tuned(), ABOUT)


def tuned() -> Tuning:
    """Twelve runs with the long names of settings, some without a prediction, some undone."""
    measured = Measured(gpus=1, micro_batch=1, seq_len=512, samples_per_s=3.2, step_ms=320.1)
    first = Rung(number=0, change="the job as it is", outcome="ok", decision="first", measured=measured)
    return Tuning(command=("train.py",), rungs=(first, *(_rung(number) for number in range(1, 12))), why_ended=DONE)


def _rung(number: int) -> Rung:
    achieved = (0.4, 0.44, 0.5) if number % 4 == 0 else (1.2, 1.3 + number / 4, 4.5)
    return Rung(
        number=number, rule="rule", change=f"per_device_train_batch_size={number}, gradient_accumulation_steps=16",
        outcome="ok", decision="rolled back" if achieved[1] < 1 else "kept", achieved=achieved, total=achieved,
        predicted=(1.1, 1.3 + 0.3 * number) if number % 3 else None,
    )  # fmt: skip


def of_a_failed_allocation() -> str:
    return memory_page(judged(read(ROOT / "sample_traces" / "dumps" / "synthetic-memory-oom.pickle")), ABOUT)


def of_a_week(folder: Path) -> str:
    """The page of seven days of jobs on four hosts, one of which holds up the others."""
    jobs = {
        f"nlp/{day}": made_job(
            ("n1", "n2", "n3", "n4"), 2, late="n2", causes={"data-wait": 0.05 + 0.03 * day, "dispatch": 0.1},
            plan=[("data-wait", (1.1, 1.25))], began=f"2026-08-{day + 1:02}T00:00:00Z",
        )
        for day in range(7)
    }  # fmt: skip
    return fleet_page(fleet_at(fleet_written(folder, jobs)), ABOUT)


ANALYZED: dict[str, Callable[[], Diagnosis]] = {
    "straggler": lambda: sample("synthetic-straggler"),
    "memory-bound": lambda: sample("synthetic-memory-bound.json.gz"),
    "cpu": lambda: sample("cpu-slow-loader.json.gz"),
    "stacks": lambda: measured("h100-eager-attention"),
    "64-ranks": many_ranks,
    "memory": job_with_memory,
}
OUTSIDE = {
    "dlrm-8": ("DIAGNOSE_REAL_TRACES", "dlrm-8xv100"),
    "resnet50": ("DIAGNOSE_REAL_TRACES", "resnet50-v100-workers4"),
    "nsys": ("DIAGNOSE_NSYS_EXPORTS", "mfu_2gpu_before.sqlite"),
}
for _name, (_variable, _file) in OUTSIDE.items():
    if os.environ.get(_variable):
        ANALYZED[_name] = lambda of=(_variable, _file): outside(*of)
OTHERS: dict[str, Callable[[], str]] = {
    "long kernels": of_long_kernels,
    "two runs": of_two_runs,
    "twelve runs": of_twelve_runs,
    "failed allocation": of_a_failed_allocation,
}
NAMES = [*ANALYZED, *OTHERS, "week"]


def whole_page(name: str, folder: Path) -> Path:
    """The page of the name as a file in the folder."""
    if name == "week":
        text = of_a_week(folder / "jobs")
    else:
        text = OTHERS[name]() if name in OTHERS else written(ANALYZED[name]())
    file = folder / "page.html"
    file.write_text(text, encoding="utf-8")
    return file
