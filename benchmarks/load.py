"""From a large trace file to the printed verdict, against other ways to read it: wall, CPU and peak memory.

    python benchmarks/load.py --size 1G --vs hta --source trace.json.gz --hta-python venv/bin/python --report

The trace is synthetic: a small one again and again (replicate.py). Every reader runs in fresh processes, in turn with
the others, and every round is given. HTA loads the trace and computes four breakdowns (temporal, idle, kernel,
communication-computation overlap). "Again" is the same command once more, "columns from the cache" one with other
options. The ratios hold across machines, the seconds do not.
"""

from __future__ import annotations

import argparse
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

REPORTS = Path(__file__).parent / "reports"
SAMPLE = Path(__file__).parent.parent / "sample_traces" / "synthetic-memory-bound.json.gz"
SMALL = "14M"
SETTLED_AFTER_S = 4  # of a file that was written just now no answer is kept
ANALYZE = ("-m", "diagnose", "analyze", "{path}")
LOAD = "import sys; from pathlib import Path; from diagnose.trace import load; print(len(load(Path(sys.argv[1]))))"
BY_REFERENCE = "import os; os.environ['DIAGNOSE_READER'] = 'reference'; "
OURS: Mapping[str, tuple[str, ...]] = {
    "diagnose": (*ANALYZE, "--no-cache"),
    "diagnose --jobs 1": (*ANALYZE, "--no-cache", "--jobs", "1"),
    "diagnose --jobs 2": (*ANALYZE, "--no-cache", "--jobs", "2"),
    "diagnose, columns from the cache": (*ANALYZE, "--tokens-per-step", "{round}"),
    "diagnose, again": ANALYZE,
    "diagnose, load alone": ("-c", LOAD, "{path}"),
    "diagnose, load alone, reference reader": ("-c", BY_REFERENCE + LOAD, "{path}"),
}
_HTA = """
import logging, os, sys, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
path = os.path.abspath(sys.argv[1])
found = TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path))
found.get_temporal_breakdown(visualize=False)
found.get_idle_time_breakdown(ranks=[0], visualize=False)
found.get_gpu_kernel_breakdown(visualize=False)
found.get_comm_comp_overlap(visualize=False)
"""
_FRAME = """
import gzip, sys, pandas, {0}
opened = gzip.open if sys.argv[1].endswith(".gz") else open
with opened(sys.argv[1], "rb") as file:
    pandas.DataFrame({0}.loads(file.read())["traceEvents"])
"""
_TRACELENS = """
import sys
from TraceLens import TreePerfAnalyzer
TreePerfAnalyzer.from_file(sys.argv[1]).get_df_gpu_timeline()
"""
OTHERS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # what is compared: its code, and the modules that it needs
    "hta": (_HTA, ("hta.trace_analysis",)),
    "tracelens": (_TRACELENS, ("TraceLens",)),
    "json": (_FRAME.format("json"), ("pandas",)),
    "orjson": (_FRAME.format("orjson"), ("pandas", "orjson")),
}
FIRST = "diagnose"


@dataclass(frozen=True)
class Timed:
    """Wall and CPU seconds of a command with all its processes, and the largest sum of their memory, in bytes."""

    wall_s: float
    cpu_s: float
    peak_bytes: int


def timed(command: Sequence[str], env: Mapping[str, str]) -> Timed:
    """One run.

    Raises:
        SystemExit: the command failed.
    """
    begin, peak = time.perf_counter(), 0
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, env=dict(env))
        while True:
            peak = max(peak, sum(map(_resident, _family(process.pid))), _highest(process.pid))
            ended, status, used = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            time.sleep(0.02)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            raise SystemExit(f"{command[:3]} failed:\n{said.read().decode(errors='replace')[-2000:]}")
    return Timed(wall, used.ru_utime + used.ru_stime, peak)


def _family(process: int) -> list[int]:
    try:
        text = Path(f"/proc/{process}/task/{process}/children").read_text()
    except OSError:
        text = ""
    return [process, *(each for child in text.split() for each in _family(int(child)))]


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def _highest(process: int) -> int:
    """Unlike ru_maxrss, this does not count what the process was before it became the command."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith("VmHWM")), 0)


def commands(path: Path, others: Sequence[str], python_of: Mapping[str, str]) -> dict[str, list[str]]:
    """Every reader's command line."""
    ours = {
        name: [sys.executable, *(part.format(path=path, round="{round}") for part in parts)]
        for name, parts in OURS.items()
    }
    return ours | {name: [python_of[name], "-c", OTHERS[name][0], str(path)] for name in others}


def compared(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[Timed]]:
    """The runs of each reader, in turn; the cache is filled before."""
    runs: dict[str, list[Timed]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as cache:
        root = str(Path(__file__).parent.parent)
        compiled = {"PYTHONPYCACHEPREFIX": f"{cache}/bytecode"}  # as an installation holds it
        env = os.environ | {"DIAGNOSE_CACHE_DIR": cache, "PYTHONPATH": root} | compiled
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        time.sleep(SETTLED_AFTER_S)
        timed(commands["diagnose, again"], env)
        for number in range(rounds):
            for name, command in commands.items():
                runs[name].append(timed([part.replace("{round}", str(number + 1)) for part in command], env))
                sys.stderr.write(f"{name}: {runs[name][-1]}\n")
    return runs


def table(runs: Mapping[str, Sequence[Timed]], text_bytes: int, against: str) -> str:
    """Each round of each reader, and how many times more `against` took in the same round."""
    lines = [
        f"| reader | round | wall s | CPU s | peak MiB | peak, times the text | {against}: wall | {against}: CPU |",
        8 * "|---" + "|",
    ]
    for name, rounds in runs.items():
        for number, each in enumerate(rounds):
            other = runs[against][number]
            cells = [f"{each.wall_s:.2f}", f"{each.cpu_s:.2f}", f"{each.peak_bytes / 2**20:.0f}"]
            cells += [f"{each.peak_bytes / text_bytes:.2f}"]
            cells += [f"{other.wall_s / each.wall_s:.1f}x", f"{other.cpu_s / each.cpu_s:.1f}x"]
            lines.append(f"| {name} | {number + 1} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def importable(python: str, modules: Sequence[str]) -> str:
    """Why `python` cannot import one of the modules, empty when it can import all."""
    for module in modules:
        done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["it does not start"])[-1]
    return ""


def report(stated: argparse.Namespace, parts: Sequence[str], skipped: Mapping[str, str]) -> str:
    """The dated report."""
    left_out = "".join(f"\nSkipped: {name}, {why}.\n" for name, why in skipped.items())
    return (
        f"# Loading, {time.strftime('%Y-%m-%d')}\n\n"
        f"`python benchmarks/load.py --size {stated.size} --vs {' '.join(stated.vs)} --source {stated.source.name}`, "
        f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f} at the "
        "end: the machine was shared with other work, so only ratios within a round mean something.\n\n"
        "From the file to the printed verdict; hta: load and four breakdowns. Peak: all processes of a reader "
        "together. The traces are synthetic, one real trace again and again, in six steps.\n\n"
        + "\n\n".join(parts)
        + "\n"
        + left_out
    )


def main() -> None:
    """Runs the comparison and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="200M")
    parser.add_argument("--source", type=Path, default=SAMPLE)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--vs", nargs="*", choices=[*OTHERS], default=["json"])
    parser.add_argument("--hta-python", default=sys.executable, help="the Python that has HTA or other readers")
    parser.add_argument("--report", nargs="?", type=Path, const=REPORTS, help="folder for the dated report")
    stated = parser.parse_args()
    python_of = dict.fromkeys(OTHERS, stated.hta_python)
    skipped = {name: why for name in stated.vs if (why := importable(python_of[name], OTHERS[name][1]))}
    others = [name for name in stated.vs if name not in skipped]
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for size in (SMALL, stated.size):
            path = Path(folder) / f"synthetic-{size}.json"
            replicate(stated.source, path, size_of(size))
            text = path.stat().st_size
            runs = compared(commands(path, others, python_of), stated.rounds)
            parts.append(f"## {text / 1e6:.0f} MB of text\n\n{table(runs, text, others[0] if others else FIRST)}")
    written = report(stated, parts, skipped)
    sys.stdout.write(written)
    if stated.report:
        stated.report.mkdir(parents=True, exist_ok=True)
        (stated.report / f"load-{time.strftime('%Y-%m-%d')}.md").write_text(written)


if __name__ == "__main__":
    main()
