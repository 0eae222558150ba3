"""Where an analysis spends its time and memory: CPU seconds, page faults and resident memory of each stage.

    python benchmarks/stages.py --size 1G --source trace.json.gz --report
    python benchmarks/stages.py --size 1G --source trace.json.gz --against ../another-checkout

The trace is synthetic: a small one again and again (replicate.py). Each run is a fresh process: one parses the file,
the next takes it from the cache. With --against both checkouts run in turn, so that their ratio holds on a machine that
others use. `--functions N` adds the N functions with most time of their own, by cProfile on CPU time, which makes all
calls of Python look dearer than they are.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from load import REPORTS, SAMPLE
from replicate import replicate, size_of

ROOT = Path(__file__).parent.parent
_RUN = """
import json, os, resource, sys, time
begun = time.process_time()
import cProfile, pstats
from diagnose import analysis
from diagnose.analysis import job, rank
from diagnose.trace import Loading

stages = {}

def noted(name, begin, faults):
    memory = dict(line.split(":") for line in open("/proc/self/status") if line.startswith(("VmHWM", "VmRSS")))
    used = resource.getrusage(resource.RUSAGE_SELF)
    was = stages.get(name, {"cpu_s": 0.0, "faults": 0})
    stages[name] = {
        "cpu_s": was["cpu_s"] + time.process_time() - begin,
        "faults": was["faults"] + used.ru_minflt - faults,
        "mib": int(memory["VmRSS"].split()[0]) >> 10,
        "peak_mib": int(memory["VmHWM"].split()[0]) >> 10,
    }

def watch(module, function, name):
    inner = getattr(module, function)
    def outer(*given, **named):
        begin, faults = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        try:
            return inner(*given, **named)
        finally:
            noted(name, begin, faults)
    setattr(module, function, outer)

noted("imports", begun, 0)
watch(job, "load_rules", "rules")
load_all = rank.load_all
def loaded(*given):
    traces = load_all(*given)
    while True:
        begin, faults = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        trace = next(traces, None)
        if trace is None:
            return
        noted("load", begin, faults)
        yield trace
rank.load_all = loaded
for function, name in (
    ("timeline_of", "timeline"), ("roofline_of", "roofline"), ("attribute", "attribution"), ("digest_of", "digest")
):
    watch(rank, function, name)
watch(job, "join", "join")
watch(job, "measure", "metrics")
watch(job, "diagnose", "judgement, replay, tables")
profile = cProfile.Profile(time.process_time)
options = analysis.Options(loading=Loading(cache=True))
begin, faults = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_minflt
most = int(sys.argv[2])
if most:
    profile.enable()
with analysis.examined(sys.argv[1], options):  # analyze may give an earlier answer
    pass
profile.disable()
noted("all but imports", begin, faults)
rows = sorted(pstats.Stats(profile).stats.items(), key=lambda row: -row[1][2])[:most] if most else []
functions = [[f"{os.path.basename(f)}:{name}", calls, own] for (f, _, name), (_, calls, own, _, _) in rows]
json.dump({"stages": stages, "functions": functions}, sys.stdout)
"""


def measured(tree: Path, trace: Path, cache: str, functions: int) -> dict[str, Any]:
    """The stages of one run of a checkout, in a process of its own."""
    kept = {"DIAGNOSE_CACHE_DIR": cache, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": f"{cache}/bytecode"}
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | kept
    command = [sys.executable, "-c", _RUN, str(trace), str(functions)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=tree)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(runs: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """CPU seconds, thousands of page faults and resident memory of each stage, run beside run."""
    names = list(dict.fromkeys(name for _, run in runs for name in run["stages"]))
    head = ["stage"] + [f"{who}: {what}" for who, _ in runs for what in ("CPU s", "faults, 1000", "MiB", "peak MiB")]
    lines = [f"| {' | '.join(head)} |", len(head) * "|---" + "|"]
    for name in names:
        cells = [name]
        for _, run in runs:
            stage = run["stages"].get(name)
            told = () if stage is None else (stage["cpu_s"], stage["faults"] / 1e3, stage["mib"], stage["peak_mib"])
            cells += [f"{value:.2f}" if at == 0 else f"{value:.0f}" for at, value in enumerate(told)] or 4 * [""]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def functions_of(run: dict[str, Any]) -> str:
    """The functions with most time of their own."""
    lines = ["| function | calls | CPU s of its own |", 3 * "|---" + "|"]
    return "\n".join([*lines, *(f"| `{name}` | {calls} | {own:.2f} |" for name, calls, own in run["functions"])])


def compared(stated: argparse.Namespace, folder: str) -> tuple[int, list[str]]:
    """The size of the text, and the tables: parsed, then from the cache."""
    trace = Path(folder) / "synthetic.json"
    replicate(stated.source, trace, size_of(stated.size))
    trees = {"before": stated.against.resolve(), "after": ROOT} if stated.against else {"this": ROOT}
    parts = []
    for how in ("parsed, and stored", "from the cache", "from the cache again"):
        runs = [(who, measured(tree, trace, f"{folder}/{who}", 0)) for who, tree in trees.items()]
        parts.append(f"## {how.capitalize()}\n\n{table(runs)}")
    if stated.functions:
        for who, tree in trees.items():
            run = measured(tree, trace, f"{folder}/{who}", stated.functions)
            parts.append(f"## Functions, {who}\n\n{functions_of(run)}")
    return trace.stat().st_size, parts


def main() -> None:
    """Runs the stages and prints the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="200M")
    parser.add_argument("--source", type=Path, default=SAMPLE)
    parser.add_argument("--against", type=Path, help="another checkout, measured in turn")
    parser.add_argument("--functions", type=int, default=0, metavar="N")
    parser.add_argument("--report", nargs="?", type=Path, const=REPORTS, help="folder for the dated report")
    stated = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text_bytes, parts = compared(stated, folder)
    command = f"python benchmarks/stages.py --size {stated.size} --source {stated.source.name}"
    command += f" --against CHECKOUT --functions {stated.functions}" if stated.against else ""
    written = (
        f"# Stages of an analysis, {time.strftime('%Y-%m-%d')}\n\n`{command}`, {os.cpu_count()} cores, load average "
        f"{os.getloadavg()[0]:.1f} at the end: other work ran beside it, so only ratios of CPU seconds "
        f"mean something.\n\n{text_bytes / 1e6:.0f} MB of text, synthetic. CPU seconds: user and system.\n\n"
        + "\n\n".join(parts)
        + "\n"
    )
    sys.stdout.write(written)
    if stated.report:
        (stated.report / f"stages-{time.strftime('%Y-%m-%d')}.md").write_text(written)


if __name__ == "__main__":
    main()
