"""Jobs whose Python is known: recorded calls in a trace under construction, and samples in a record beside a trace."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kineto import Trace
from kineto_rows import set_end

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Finding

MAIN = ["train.py", 12, "main"]
LOADER = "torch/utils/data/dataloader.py(733): __next__"
Sampled = tuple[str, str, str | None, int]  # the user's function, what it is doing, what it calls, in how many samples


@contextmanager
def call(job: Trace, name: str, us: float = 0) -> Iterator[None]:
    """A Python call around what the block does, after `us` of its own."""
    row = job._row("python_function", name, job.now, job.now, {})
    job.host(us)
    yield
    set_end(row, job.now)


def called(job: Trace, name: str, us: float) -> None:
    """A Python call that calls nothing."""
    with call(job, name, us):
        pass


def stacks(*sampled: Sampled) -> list[dict[str, Any]]:
    """Samples of `main` calling functions of data.py, each on line 31; "a > b" is `a` calling `b`.

    A name that begins with a number, as "7 > a", stands for another line of `main`.
    """
    return [
        {"frames": _frames(functions.split(" > ")), "doing": doing, "calls": calls, "samples": count}
        for functions, doing, calls, count in sampled
    ]


def _frames(names: list[str]) -> list[list[Any]]:
    main = [MAIN[0], int(names.pop(0)), MAIN[2]] if names[0].isdigit() else MAIN
    return [main, *(["data.py", 31, name] for name in names)]


def samples(*sampled: Sampled, steps: int = 10, wall_ms: float = 2000.0, **more: Any) -> dict[str, Any]:
    """The field of a record."""
    taken = sum(count for *_, count in sampled)
    counts = {"samples": taken, "in_user_code": taken, "steps": steps, "first_step": 3, "left_out": 0}
    return {"interval_ms": 10.0, "wall_ms": wall_ms, "cost_ms": 4.0, **counts, "stacks": stacks(*sampled)} | more


def recorded(folder: Path, jobs: Sequence[Trace], *records: dict[str, Any] | None) -> Diagnosis:
    """The diagnosis of the traces, each with its record beside it."""
    for job, record in zip(jobs, records or [None] * len(jobs), strict=True):
        job.write(folder / f"rank{job.rank}.json")
        if record is not None:
            (folder / f"capture-rank{job.rank}.json").write_text(json.dumps(record))
    return analyze(folder)


def finding(diagnosis: Diagnosis, rule: str) -> Finding:
    """What the rule found."""
    return next(found for found in diagnosis.findings if found.rule == rule)


def told(found: Finding) -> list[str]:
    """The lines that it names: `collate data.py:31 0.62`."""
    return [f"{line.function} {line.file}:{line.line} {line.share:.2f}" for line in found.where]
