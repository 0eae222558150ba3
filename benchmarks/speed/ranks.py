"""What a job of many ranks costs: time and memory of `diagnose analyze` against the number of ranks.

    python -m benchmarks.speed.ranks --ranks 64,256,1024,4096 --steps 3,6 --dask --write

The jobs are simulated (benchmarks/simulator), with skewed and drifting clocks and a slow loader on one rank. Each is
analysed in a fresh process as on the command line, without the cache. Seconds hold for one machine; what holds across
machines is that CPU time grows as ranks and events do, and that memory grows by the digests alone. The first is fitted:
how far the measured CPU times are from start + ranks + events, and what a term in the square of the ranks would add.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import cost_of, in_a_process
from reporting import numbers, page, parser, publish, table
from simulator import Clocks, Fault, Job, simulate

from diagnose.arrays import Floats

CLOCKS = Clocks(3.0, 20.0)
FAULT = "data"
HEADS = ("ranks", "steps", "MB (gz)", "events", "wall s", "CPU s", "CPU ms per rank", "peak MiB", "named")


@dataclass(frozen=True)
class Measurement:
    """One job: its ranks and steps, the size of its compressed traces, what its analysis costs, and its answer."""

    ranks: int
    steps: int
    how: str
    megabytes: float
    events: int
    wall_s: float
    cpu_s: float
    peak_mib: float
    named: str
    answer: str

    @property
    def row(self) -> list[str]:
        """Its line of the table."""
        return [
            f"{self.ranks:,}{self.how}", f"{self.steps}", f"{self.megabytes:,.1f}", f"{self.events:,}",
            f"{self.wall_s:.1f}", f"{self.cpu_s:.1f}", f"{1e3 * self.cpu_s / self.ranks:.0f}",
            f"{self.peak_mib:,.0f}", self.named,
        ]  # fmt: skip


def main() -> None:
    """Simulate jobs of several sizes, analyse each, and print what that costs."""
    options = stated()
    jobs = [(ranks, steps) for ranks in options.ranks for steps in options.steps]
    measured: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="diagnose-ranks-") as scratch:
        for ranks, steps in jobs:
            folder = Path(scratch) / f"{ranks}-{steps}"
            in_a_process(_write, ranks, steps, folder)
            measured.append(_measured(folder, ranks, steps, "", ["--jobs", str(options.jobs)]))
            sys.stderr.write(f"{ranks} ranks, {steps} steps: {measured[-1].wall_s:.1f} s\n")
            if (ranks, steps) != jobs[-1]:
                shutil.rmtree(folder)
        if options.dask:
            with _cluster(options.jobs) as address:
                measured.append(_measured(folder, ranks, steps, " (Dask)", ["--scheduler", address]))
    publish(report(measured), options.write, "ranks")
    if not same_answer(measured):
        raise SystemExit("the workers of Dask say something else than the processes of this machine")


def stated(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; ranks and steps as numbers, from small to large."""
    options = parser(__doc__)
    options.add_argument("--ranks", type=numbers, default=[8, 64, 1024], metavar="N,...", help="sizes of the jobs")
    options.add_argument(
        "--steps", type=numbers, default=[4], metavar="N,...", help="the first of three is not counted"
    )
    options.add_argument("--jobs", type=int, default=2, help="processes")
    options.add_argument("--dask", action="store_true", help="the largest job through a local Dask cluster too")
    chosen = options.parse_args(words)
    chosen.ranks, chosen.steps = sorted({*chosen.ranks}), sorted({*chosen.steps})
    return chosen


def _write(ranks: int, steps: int, folder: Path) -> None:
    """Simulates a job with a late rank."""
    late = Fault(FAULT, (ranks // 3,))
    simulate(Job(ranks=ranks, steps=steps, seed=1, clocks=CLOCKS, faults=(late,))).write(folder)


def _measured(folder: Path, ranks: int, steps: int, how: str, flags: Sequence[str]) -> Measurement:
    with tempfile.TemporaryFile() as file:
        cost = cost_of("analyze", str(folder), *flags, "--json", "--no-cache", answer=file)
        file.seek(0)
        answer = file.read()
    diagnosis = json.loads(answer)
    named = ", ".join(f"rank {s['rank']}: {s['cause']}" for s in diagnosis["stragglers"]) or "nobody"
    return Measurement(
        ranks, steps, how,
        megabytes=sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        events=diagnosis["trace"]["events"],
        wall_s=cost.wall_s,
        cpu_s=cost.cpu_s,
        peak_mib=cost.peak_bytes / 2**20,
        named=f"{named} (truth: rank {ranks // 3}: {FAULT})",
        answer=hashlib.sha256(answer).hexdigest(),
    )  # fmt: skip


@contextmanager
def _cluster(workers: int) -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster:
        yield cluster.scheduler_address


def same_answer(measured: Sequence[Measurement]) -> bool:
    """Whether the workers of Dask, where they were asked, said the same of the last job."""
    return not measured[-1].how or measured[-1].answer == measured[-2].answer


def fitted(measured: Sequence[Measurement]) -> str:
    """CPU time as start + ranks + events by least squares of the relative deviations, and how far it is from that."""
    cpu = np.array([m.cpu_s for m in measured])
    ranks, events = (np.array([getattr(m, of) for m in measured], float) for of in ("ranks", "events"))
    columns = [np.ones(len(cpu)), ranks, events / 1e6]
    if np.ptp(events / ranks) < 1:  # of jobs of one length, ranks and events cannot be told apart
        columns.pop()
    if len(cpu) < len(columns) + 2:
        return "Too few jobs to fit how CPU time grows."
    each, straight = _least_squares(columns, cpu)
    with_square, _ = _least_squares([*columns, ranks**2], cpu)
    names = ("s", "ms for each rank", "s for each million events")
    terms = [f"{by * each_of:.2f} {name}" for by, each_of, name in zip((1, 1e3, 1), each, names, strict=False)]
    square = with_square[-1] * max(ranks) ** 2 / max(cpu[ranks == max(ranks)])
    return (
        f"CPU time is {' + '.join(terms).replace('+ -', '- ')}:\n"
        f"each job is within {100 * max(abs(straight / cpu - 1)):.0f} % of that. A term in the square of the ranks, "
        f"fitted beside these, is\n{100 * square:.1f} % of the largest job."
    )


def _least_squares(columns: Sequence[Floats], cpu: Floats) -> tuple[Floats, Floats]:
    """The factor of each column, and the fitted CPU seconds."""
    design = np.stack(columns, axis=1)
    factors = np.linalg.lstsq(design / cpu[:, None], np.ones(len(cpu)), rcond=None)[0]
    return factors, design @ factors


def report(measured: Sequence[Measurement]) -> str:
    """The dated report."""
    about = "Simulated jobs. CPU and peak are of all processes of a command together, without those of Dask."
    parts = [
        table(HEADS, [one.row for one in measured]),
        fitted([one for one in measured if not one.how]),
    ]
    if measured[-1].how:
        said = "the same, byte for byte" if same_answer(measured) else "**something else**"
        parts.append(f"The workers of Dask say {said}.")
    return page("Jobs of many ranks", about, *parts)


if __name__ == "__main__":
    main()
