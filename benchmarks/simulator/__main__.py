"""Write the traces of a simulated job.

python -m benchmarks.simulator OUT --ranks 64 --fault slow_kernels --late 5 --seed 3
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from . import KINDS, Clocks, Fault, Job, simulate
from .job import PARALLELISMS


def main() -> None:
    """Write the traces of a simulated job of many ranks, and the truth about it."""
    options = _parser().parse_args()
    faults = () if options.fault == "none" else (Fault(options.fault, options.late, options.size, options.since_step),)
    job = Job(
        ranks=options.ranks, ranks_per_node=options.ranks_per_node, steps=options.steps, seed=options.seed,
        parallelism=options.parallelism, model_parallel=options.model_parallel, gpu=not options.gloo,
        seq=not options.no_seq, clocks=Clocks(options.offset_ms, options.drift_ppm), faults=faults,
        missing=options.missing,
    )  # fmt: skip
    begin = time.perf_counter()
    truth = simulate(job).write(options.out, gz=not options.plain)
    size_mb = sum(file.stat().st_size for file in options.out.iterdir()) / 1e6
    took = time.perf_counter() - begin
    print(f"{job.ranks - len(job.missing)} traces, {size_mb:.1f} MB, {took:.1f} s; step {truth.step_ms[-1]:.1f} ms")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulator", description=main.__doc__)
    parser.add_argument("out", type=Path, help="folder to write to")
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--ranks-per-node", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parallelism", choices=PARALLELISMS, default="ddp")
    parser.add_argument("--model-parallel", type=int, default=4, help="tensor-parallel ranks, or pipeline stages")
    parser.add_argument("--fault", choices=list(KINDS), default="none")
    parser.add_argument("--late", type=_ranks, default=(0,), help="ranks of the fault, such as 3 or 8,9")
    parser.add_argument("--size", type=float, help="of the fault; simulator/faults.py says of what")
    parser.add_argument("--since-step", type=int, default=0)
    parser.add_argument("--offset-ms", type=float, default=0, help="largest clock offset of a host")
    parser.add_argument("--drift-ppm", type=float, default=0, help="largest clock drift of a host")
    parser.add_argument("--missing", type=_ranks, default=(), help="ranks without a trace")
    parser.add_argument("--no-seq", action="store_true", help="as torch wrote it before 2.12")
    parser.add_argument("--gloo", action="store_true", help="a job on CPUs")
    parser.add_argument("--plain", action="store_true", help="write .json instead of .json.gz")
    return parser


def _ranks(text: str) -> tuple[int, ...]:
    return tuple(int(rank) for rank in text.split(","))


if __name__ == "__main__":
    main()
