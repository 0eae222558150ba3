"""What many jobs cost: time and memory of `diagnose fleet` against the number of diagnoses.

    python benchmarks/fleet.py --jobs 500,2000,8000 --report benchmarks/reports/
    python benchmarks/fleet.py --jobs 300 --keep fleet-demo/      # only writes the diagnoses, to look at a report

The diagnoses are synthetic: those of the bundled samples, of 1 and 8 ranks and of full length, copied with other times,
hosts, dates and users. In them one host is late ten times as often as any other, and jobs wait longer for data from the
20th day on, so that the report has something to say. Each folder is read in a fresh process as on the command line.
Seconds hold for one machine; what holds across machines is that both grow with the number of files alone.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from msgspec.structs import replace  # noqa: E402

from diagnose.analysis import analyze  # noqa: E402
from diagnose.diagnosis import Diagnosis, Origin, RankReport  # noqa: E402

SAMPLES = (
    "synthetic-straggler",
    "synthetic-healthy-8",
    "synthetic-communication-bound.json.gz",
    "synthetic-compute-bound.json.gz",
    "synthetic-memory-bound.json.gz",
    "synthetic-sync-every-step.json.gz",
    "synthetic-tiny-kernels.json.gz",
)
HOSTS = tuple(f"gpu-{number:02}" for number in range(40))
USERS = ("ada", "ben", "cleo", "dora")
SLOW_HOST, SLOW_FROM_DAY, DAYS = "gpu-17", 20, 40
FIRST_DAY = datetime.datetime(2026, 7, 1, tzinfo=datetime.UTC)
_RUN = """
import json, resource, sys, time
begin = time.perf_counter()
from diagnose.cli import main
code = 0
try:
    main(["fleet", *sys.argv[1:]])
except SystemExit as ended:
    code = ended.code
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "code": code or 0, "wall_s": time.perf_counter() - begin, "cpu_s": used.ru_utime + used.ru_stime,
    "peak_mib": used.ru_maxrss / 1024}), file=sys.stderr)
"""


@dataclass(frozen=True)
class Measurement:
    """One folder: its diagnoses, their size, and what reading them took."""

    jobs: int
    megabytes: float
    wall_s: float
    cpu_s: float
    peak_mib: float


def varied(sample: Diagnosis, number: int, draw: random.Random) -> Diagnosis:
    """A job like the sample, on other hosts and another day, with steps that are a little longer or shorter."""
    day = draw.randrange(DAYS)
    hosts = draw.sample([host for host in HOSTS if host != SLOW_HOST], 4)
    if len(sample.ranks) > 1 and draw.random() < 0.25:
        hosts[draw.randrange(4)] = SLOW_HOST
    if sample.stragglers and SLOW_HOST in hosts:
        hosts.remove(SLOW_HOST)
        hosts.insert(sample.stragglers[0].rank // 2, SLOW_HOST)
    began = FIRST_DAY + datetime.timedelta(days=day, seconds=draw.randrange(86_400))
    waits = draw.uniform(0.02, 0.06) + (0.08 if day >= SLOW_FROM_DAY else 0.0)
    ranks = tuple(_rank(rank, hosts[rank.rank // 2], waits, draw) for rank in sample.ranks)
    stragglers = tuple(replace(one, host=hosts[one.rank // 2]) for one in sample.stragglers)
    origin = Origin(began=began.strftime("%Y-%m-%dT%H:%M:%SZ"), slurm_job=str(100_000 + number))
    return replace(sample, ranks=ranks, stragglers=stragglers, origin=origin)


def _rank(rank: RankReport, host: str, waits: float, draw: random.Random) -> RankReport:
    """The rank with other times, and so much of its step waiting for data."""
    whole = sum(entry.ns for entry in rank.ledger)
    kept = [entry for entry in rank.ledger if entry.cause != "data-wait"]
    ledger = [replace(entry, ns=round(entry.ns * draw.uniform(0.9, 1.1))) for entry in kept]
    data = type(rank.ledger[0])(cause="data-wait", class_="data", ns=round(waits * whole), share=waits)
    return replace(rank, host=host, ledger=(*ledger, data), clock_held_by=("heat",) if host == HOSTS[3] else ())


def write(folder: Path, jobs: int, samples: Sequence[Diagnosis]) -> float:
    """Writes so many diagnoses below the folder, each user's in one of their own; their megabytes."""
    draw, size = random.Random(7), 0
    for number in range(jobs):
        user = folder / draw.choice(USERS)
        user.mkdir(parents=True, exist_ok=True)
        text = varied(samples[number % len(samples)], number, draw).to_json()
        (user / f"{100_000 + number}.json").write_text(text)
        size += len(text)
    return size / 1e6


def measured(jobs: int, samples: Sequence[Diagnosis]) -> Measurement:
    """What `diagnose fleet` takes for so many."""
    with tempfile.TemporaryDirectory() as folder:
        megabytes = write(Path(folder), jobs, samples)
        command = [sys.executable, "-c", _RUN, folder, "--html", f"{folder}/fleet.html"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    told = json.loads(done.stderr.splitlines()[-1])
    assert told.pop("code") == 0, done.stderr
    return Measurement(jobs, megabytes, **told)


def report(rows: Sequence[Measurement], command: str) -> str:
    """The table, as Markdown."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    python, cores = ".".join(map(str, sys.version_info[:3])), f"{os.cpu_count()} cores of {platform.machine()}"
    lines = [
        f"# Many jobs: cost, {day}",
        "",
        f"`{command}`, Python {python}, {cores}, load {os.getloadavg()[0]:.0f} at the end: where other work",
        "runs beside, processor time tells more than the clock.",
        "What is measured stands in the docstring of the script.",
        "",
    ]
    lines += [
        "| diagnoses | MB of JSON | seconds | seconds of processor time | peak memory, MiB |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row.jobs:,} | {row.megabytes:,.0f} | {row.wall_s:.1f} | {row.cpu_s:.1f} | {row.peak_mib:,.0f} |"
        for row in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures, prints, and writes the report."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", default="500,2000")
    options.add_argument("--report", type=Path)
    options.add_argument("--keep", type=Path, help="only write the diagnoses there")
    given = options.parse_args()
    samples = [analyze(ROOT / "sample_traces" / name) for name in SAMPLES]
    numbers = [int(number) for number in given.jobs.split(",")]
    if given.keep is not None:
        print(f"{write(given.keep, numbers[0], samples):.0f} MB in {given.keep}")
        return
    text = report([measured(number, samples) for number in numbers], f"python benchmarks/fleet.py --jobs {given.jobs}")
    print(text)
    if given.report is not None:
        (given.report / f"fleet-{datetime.datetime.now(datetime.UTC).date().isoformat()}.md").write_text(text)


if __name__ == "__main__":
    main()
