"""What many jobs cost: time and memory of `diagnose fleet` against the number of diagnoses.

    python -m benchmarks.speed.fleet --jobs 500,2000,8000 --write
    python -m benchmarks.speed.fleet --jobs 300 --keep fleet-demo/      # only writes the diagnoses, to look at a report

The diagnoses are synthetic: those of the bundled samples, of 1 and 8 ranks and of full length, copied with other times,
hosts, dates and users. In them one host is late ten times as often as any other, and jobs wait longer for data from the
20th day on, so that the report has something to say. Each folder is read in a fresh process as on the command line.
Seconds hold for one machine; what holds across machines is that both grow with the number of files alone.
"""

import random
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from measuring import ROOT, cost_of
from msgspec.structs import replace
from reporting import numbers, page, parser, publish, table

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis, Origin, RankReport

SAMPLES = (
    "synthetic-straggler", "synthetic-healthy-8", "synthetic-communication-bound.json.gz",
    "synthetic-compute-bound.json.gz", "synthetic-memory-bound.json.gz", "synthetic-sync-every-step.json.gz",
    "synthetic-tiny-kernels.json.gz",
)  # fmt: skip
HOSTS = tuple(f"gpu-{number:02}" for number in range(40))
USERS = ("ada", "ben", "cleo", "dora")
SLOW_HOST, SLOW_FROM_DAY, DAYS = "gpu-17", 20, 40
FIRST_DAY = datetime(2026, 7, 1, tzinfo=UTC)
HEADS = ("diagnoses", "MB of JSON", "seconds", "seconds of processor time", "peak memory, MiB")


def varied(sample: Diagnosis, number: int, draw: random.Random) -> Diagnosis:
    """A job like the sample, on other hosts and another day, with steps that are a little longer or shorter."""
    day = draw.randrange(DAYS)
    hosts = draw.sample([host for host in HOSTS if host != SLOW_HOST], 4)
    if len(sample.ranks) > 1 and draw.random() < 0.25:
        hosts[draw.randrange(4)] = SLOW_HOST
    if sample.stragglers and SLOW_HOST in hosts:
        hosts.remove(SLOW_HOST)
        hosts.insert(sample.stragglers[0].rank // 2, SLOW_HOST)
    began = FIRST_DAY + timedelta(days=day, seconds=draw.randrange(86_400))
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


def row(jobs: int, samples: Sequence[Diagnosis]) -> list[str]:
    """What `diagnose fleet` takes for so many."""
    with tempfile.TemporaryDirectory() as folder:
        megabytes = write(Path(folder), jobs, samples)
        cost = cost_of("fleet", folder, "--html", f"{folder}/fleet.html")
    return [
        f"{jobs:,}", f"{megabytes:,.0f}", f"{cost.wall_s:.1f}", f"{cost.cpu_s:.1f}",
        f"{cost.peak_bytes / 2**20:,.0f}",
    ]  # fmt: skip


def main() -> None:
    """Measure, print, and write the report."""
    options = parser(__doc__)
    options.add_argument("--jobs", type=numbers, default=[500, 2000], metavar="N,...")
    options.add_argument("--keep", type=Path, help="only write the diagnoses there")
    chosen = options.parse_args()
    samples = [analyze(ROOT / "sample_traces" / name) for name in SAMPLES]
    if chosen.keep is not None:
        print(f"{write(chosen.keep, chosen.jobs[0], samples):.0f} MB in {chosen.keep}")
        return
    rows = table(HEADS, [row(jobs, samples) for jobs in chosen.jobs])
    about = (
        "The diagnoses are synthetic, as the script says; beside other work processor time tells more than the clock."
    )
    publish(page("Many jobs: cost", about, rows), chosen.write, "fleet")


if __name__ == "__main__":
    main()
