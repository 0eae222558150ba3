"""What a job of many ranks costs: time and memory of `diagnose analyze` against the number of ranks.

    python benchmarks/ranks.py --ranks 64,256,1024,4096 --steps 3,6 --dask --report benchmarks/reports/

The jobs are simulated (benchmarks/simulator), with skewed and drifting clocks and a slow loader on one rank. Each is
analysed in a fresh process as on the command line, without the cache. Seconds hold for one machine; what holds across
machines is that CPU time grows as ranks and events do, and that memory grows by the digests alone. The first is fitted:
how far the measured CPU times are from start + ranks + events, and what a term in the square of the ranks would add.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(Path(__file__).parent))  # where `python -P` does not look

from loading.names import free_name  # noqa: E402
from simulator import Clocks, Fault, Job, simulate  # noqa: E402

from diagnose.arrays import Floats  # noqa: E402

CLOCKS = Clocks(3.0, 20.0)
FAULT = "data"
_RUN = """
import json, resource, sys, time
begin = time.perf_counter()
from diagnose.cli import main
try:
    main(["analyze", *sys.argv[1:], "--json", "--no-cache"])
except SystemExit as ended:
    code = ended.code
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print(json.dumps({
    "code": code or 0, "wall_s": time.perf_counter() - begin, "cpu_s": sum(u.ru_utime + u.ru_stime for u in used),
    "peak_mib": max(u.ru_maxrss for u in used) / 1024}), file=sys.stderr)
"""


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
    def cpu_ms_per_rank(self) -> float:
        """CPU milliseconds for each rank."""
        return 1e3 * self.cpu_s / self.ranks


def main() -> None:
    """Simulate jobs of several sizes, analyse each, and print what that costs."""
    options = stated()
    jobs = [(ranks, steps) for ranks in options.ranks for steps in options.steps]
    measured: list[Measurement] = []
    with tempfile.TemporaryDirectory(prefix="diagnose-ranks-") as scratch:
        for ranks, steps in jobs:
            folder = Path(scratch) / f"{ranks}-{steps}"
            _simulated(ranks, steps, folder)
            measured.append(_measured(folder, ranks, steps, "", ["--jobs", str(options.jobs)]))
            print(_row(measured[-1]), flush=True)
            if (ranks, steps) != jobs[-1]:
                shutil.rmtree(folder)
        if options.dask:
            with _cluster(options.jobs) as address:
                measured.append(_measured(folder, ranks, steps, " (Dask)", ["--scheduler", address]))
                print(_row(measured[-1]), flush=True)
    text = report(measured, options)
    print(text)
    if options.report:
        path = Path(options.report)
        path.mkdir(parents=True, exist_ok=True)
        (path / f"{free_name(path, f'ranks-{datetime.date.today()}')}.md").write_text(text, encoding="utf-8")
    if not same_answer(measured):
        raise SystemExit("the workers of Dask say something else than the processes of this machine")


def stated(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The options; ranks and steps as numbers, from small to large."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", action="append", help="sizes of the jobs, 8,64,1024 by default; may be repeated")
    parser.add_argument("--steps", action="append", help="of each, 4 by default; the first of three is not counted")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--dask", action="store_true", help="the largest job through a local Dask cluster too")
    parser.add_argument("--report", help="folder to write a dated report to")
    options = parser.parse_args(words)
    options.ranks, options.steps = _numbers(options.ranks or ["8,64,1024"]), _numbers(options.steps or ["4"])
    return options


def _numbers(texts: Sequence[str]) -> list[int]:
    return sorted({int(number) for text in texts for number in text.split(",")})


def _simulated(ranks: int, steps: int, folder: Path) -> None:
    """In a process of its own: the peak of whatever this one starts would hold the memory that it takes itself."""
    process = get_context("spawn").Process(target=_write, args=(ranks, steps, folder))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit("the job could not be simulated")


def _write(ranks: int, steps: int, folder: Path) -> None:
    late = Fault(FAULT, (ranks // 3,))
    simulate(Job(ranks=ranks, steps=steps, seed=1, clocks=CLOCKS, faults=(late,))).write(folder)


def _measured(folder: Path, ranks: int, steps: int, how: str, flags: Sequence[str]) -> Measurement:
    command = [sys.executable, "-c", _RUN, str(folder), *flags]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    cost = json.loads(done.stderr.splitlines()[-1])
    if cost["code"]:
        raise SystemExit(done.stderr)
    diagnosis = json.loads(done.stdout)
    named = ", ".join(f"rank {s['rank']}: {s['cause']}" for s in diagnosis["stragglers"]) or "nobody"
    return Measurement(
        ranks=ranks,
        steps=steps,
        how=how,
        megabytes=sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        events=diagnosis["trace"]["events"],
        wall_s=cost["wall_s"],
        cpu_s=cost["cpu_s"],
        peak_mib=cost["peak_mib"],
        answer=hashlib.sha256(done.stdout.encode()).hexdigest(),
        named=f"{named} (truth: rank {ranks // 3}: {FAULT})",
    )


@contextmanager
def _cluster(workers: int) -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1") as cluster:
        yield cluster.scheduler_address


def _row(measured: Measurement) -> str:
    return (
        f"| {measured.ranks:,}{measured.how} | {measured.steps} | {measured.megabytes:,.1f} | {measured.events:,} "
        f"| {measured.wall_s:.1f} | {measured.cpu_s:.1f} | {measured.cpu_ms_per_rank:.0f} "
        f"| {measured.peak_mib:,.0f} | {measured.named} |"
    )


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
    table = np.stack(columns, axis=1)
    factors = np.linalg.lstsq(table / cpu[:, None], np.ones(len(cpu)), rcond=None)[0]
    return factors, table @ factors


def report(measured: Sequence[Measurement], options: argparse.Namespace) -> str:
    """The dated report."""
    flags = " ".join(f"--{name} {','.join(map(str, getattr(options, name)))}" for name in ("ranks", "steps"))
    flags += f" --jobs {options.jobs}" + " --dask" * options.dask
    said = "the same, byte for byte" if same_answer(measured) else "**something else**"
    return "\n".join(
        [
            f"# Jobs of many ranks, {datetime.date.today()}",
            "",
            f"`python benchmarks/ranks.py {flags}`: simulated jobs, {os.cpu_count()} cores, load average",
            f"{os.getloadavg()[0]:.1f} at the end: what is above {options.jobs} of it is other work. CPU includes the",
            "worker processes (not those of Dask); the peak is that of the largest process.",
            "",
            "| ranks | steps | MB (gz) | events | wall s | CPU s | CPU ms per rank | peak MiB | named |",
            "|---|---|---|---|---|---|---|---|---|",
            *(_row(measurement) for measurement in measured),
            "",
            fitted([measurement for measurement in measured if not measurement.how]),
            *(["", f"The workers of Dask say {said}."] if options.dask else []),
            "",
        ]
    )


if __name__ == "__main__":
    main()
