"""Real jobs on the CPU under torch's own profiler, as people send their traces: no record lies beside them."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

STEPS = 4
Job = Callable[[], Callable[[], object]]
"""Builds what a step needs, and returns the step."""


def traced(script: Path, folder: Path) -> Path:
    """The folder with a trace of each job of the script, which calls `trace_each`."""
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    told = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    return folder


def trace_each(jobs: Mapping[str, Job], steps: int = STEPS) -> None:
    """Write NAME.json of each job to the folder on the command line.

    Each runs in a process of its own, forked before torch computes anything: a second session of the profiler in one
    process is another matter.
    """
    import torch

    folder = Path(sys.argv[1])
    for name, job in jobs.items():
        if not (child := os.fork()):
            torch.set_num_threads(1)
            _trace(job(), folder / f"{name}.json", steps)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            raise SystemExit(f"{name} failed")


def _trace(step: Callable[[], object], path: Path, steps: int) -> None:
    from torch.profiler import ProfilerActivity, profile, schedule

    plan = schedule(wait=0, warmup=2, active=steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True) as profiler:
        for _ in range(2 + steps):
            step()
            profiler.step()
    profiler.export_chrome_trace(str(path))
