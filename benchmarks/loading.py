"""Load time and peak memory of one large trace: ours, parsed and from the cache, against other ways to read it.

    python benchmarks/loading.py --size 1G --source trace.json.gz --report benchmarks/reports/

The trace is synthetic: a small one again and again (replicate.py). Every reader runs in a fresh process, in turn with
the others, and the least CPU time of the rounds counts. The ratios hold across machines, the seconds do not.
The others only build their columns: what `diagnose` does beyond that (repair, checks, losses) is in its time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from replicate import replicate, size_of

ROUNDS = 2
SAMPLE = Path(__file__).parent.parent / "sample_traces" / "synthetic-memory-bound.json.gz"
_DIAGNOSE = "from pathlib import Path; from diagnose.trace import Loading, load; n = len(load(Path(path), Loading(%s)))"
_FRAME = "import pandas; n = len(pandas.DataFrame(events)); "
READERS: Mapping[str, tuple[tuple[str, ...], str]] = {  # name: packages, code that reads `path` and sets `n`
    "diagnose": ((), _DIAGNOSE % ""),
    "diagnose, from its cache": ((), _DIAGNOSE % "cache=True"),
    "json, to dicts": ((), "import json; n = len(json.load(opened(path, 'rb'))['traceEvents'])"),
    "json, to a pandas frame": (
        ("pandas",),
        "import json; events = json.load(opened(path, 'rb'))['traceEvents']; " + _FRAME,
    ),
    "orjson, to a pandas frame": (
        ("orjson", "pandas"),
        "import orjson; events = orjson.loads(opened(path, 'rb').read())['traceEvents']; " + _FRAME,
    ),
}
_RUN = """
import gzip, json, resource, sys, time
path = sys.argv[1]
opened = gzip.open if path.endswith(".gz") else open
begin, cpu = time.perf_counter(), time.process_time()
exec(sys.argv[2])
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([time.perf_counter() - begin, time.process_time() - cpu, used.ru_maxrss / 1024, n]))
"""


@dataclass(frozen=True)
class Timed:
    """One reader's least wall and CPU seconds, its largest peak memory in MiB, and the events it found."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    events: int


def timed(path: Path, code: str, env: Mapping[str, str]) -> Timed:
    """One run in a process of its own."""
    command = [sys.executable, "-c", _RUN, str(path), code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(env))
    return Timed(*json.loads(done.stdout.splitlines()[-1]))


def compared(path: Path, readers: Sequence[str], rounds: int) -> dict[str, Timed]:
    """Each reader's best of the rounds; the cache is filled before."""
    runs: dict[str, list[Timed]] = {name: [] for name in readers}
    with tempfile.TemporaryDirectory() as cache:
        env = os.environ | {"DIAGNOSE_CACHE_DIR": cache}
        timed(path, READERS["diagnose, from its cache"][1], env)
        for _ in range(rounds):
            for name in readers:
                runs[name].append(timed(path, READERS[name][1], env))
    return {name: _best(done) for name, done in runs.items()}


def _best(runs: Sequence[Timed]) -> Timed:
    wall_s, cpu_s = min(r.wall_s for r in runs), min(r.cpu_s for r in runs)
    return Timed(wall_s, cpu_s, max(r.peak_mib for r in runs), runs[0].events)


def table(found: Mapping[str, Timed], text_bytes: int) -> str:
    """The figures as a table, every time also as a ratio to ours."""
    ours = found["diagnose"]
    lines = ["| reader | wall s | CPU s | CPU, times ours | peak MiB | peak, times the text |", 6 * "|---" + "|"]
    for name, each in found.items():
        cells = [each.wall_s, each.cpu_s, each.cpu_s / ours.cpu_s, each.peak_mib, each.peak_mib * 2**20 / text_bytes]
        lines.append(f"| {name} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    return "\n".join(lines)


def report(source: Path, path: Path, found: Mapping[str, Timed], missing: Sequence[str], rounds: int) -> str:
    """The dated report."""
    size = path.stat().st_size
    left_out = f"\nNot installed, so not measured: {', '.join(missing)}.\n" if missing else ""
    return (
        f"# Loading, {time.strftime('%Y-%m-%d')}\n\n"
        f"`python benchmarks/loading.py --size {size} --rounds {rounds} --source {source.name}`, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}. "
        f"Best of {rounds} rounds in turn.\n\n"
        f"Synthetic trace: {source.name} replicated to {size / 1e6:.0f} MB of text, "
        f"{found['diagnose'].events:,} complete events.\n\n{table(found, size)}\n{left_out}"
    )


def main() -> None:
    """Runs the comparison and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=size_of, default=size_of("200M"))
    parser.add_argument("--source", type=Path, default=SAMPLE)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--report", type=Path, help="folder for the dated report")
    stated = parser.parse_args()
    absent = {p for packages, _ in READERS.values() for p in packages if importlib.util.find_spec(p) is None}
    readers = [name for name, (packages, _) in READERS.items() if not absent & {*packages}]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "synthetic.json"
        replicate(stated.source, path, stated.size)
        found = compared(path, readers, stated.rounds)
        text = report(stated.source, path, found, [name for name in READERS if name not in readers], stated.rounds)
    sys.stdout.write(text)
    if stated.report:
        stated.report.mkdir(parents=True, exist_ok=True)
        (stated.report / f"loading-{time.strftime('%Y-%m-%d')}.md").write_text(text)


if __name__ == "__main__":
    main()
