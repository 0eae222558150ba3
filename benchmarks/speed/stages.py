"""Where an analysis spends its time and memory: CPU seconds, page faults and resident memory of each stage.

    python -m benchmarks.speed.stages --size 1G --source trace.json.gz --write
    python -m benchmarks.speed.stages --size 1G --source trace.json.gz --against ../another-checkout

The trace is synthetic: a small one again and again (replicate.py). Each run is a fresh process: one parses the file,
the next takes it from the cache. With --against both checkouts run in turn, so that their ratio holds on a machine that
others use. `--functions N` adds the N functions with most time of their own, by cProfile on CPU time, which makes all
calls of Python look dearer than they are.
"""

import json
import os
import subprocess
import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from measuring import ROOT
from reporting import page, parser, publish, table

from .load import SAMPLE
from .replicate import replicate, size_of

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
    return json.loads(done.stdout)


def stages_of(runs: Sequence[tuple[str, dict[str, Any]]]) -> str:
    """CPU seconds, thousands of page faults and resident memory of each stage, run beside run."""
    heads = [f"{who}: {what}" for who, _ in runs for what in ("CPU s", "faults, 1000", "MiB", "peak MiB")]
    names = dict.fromkeys(name for _, run in runs for name in run["stages"])
    rows = [[name, *(cell for _, run in runs for cell in _cells(run["stages"].get(name)))] for name in names]
    return table(["stage", *heads], rows)


def _cells(stage: dict[str, Any] | None) -> list[str]:
    if stage is None:
        return 4 * [""]
    return [
        f"{stage['cpu_s']:.2f}",
        *(f"{value:.0f}" for value in (stage["faults"] / 1e3, stage["mib"], stage["peak_mib"])),
    ]


def functions_of(run: dict[str, Any]) -> str:
    """The functions with most time of their own."""
    return table(
        ("function", "calls", "CPU s of its own"), [(f"`{f}`", calls, f"{s:.2f}") for f, calls, s in run["functions"]]
    )


def compared(stated: Namespace, trace: Path) -> Iterator[str]:
    """The tables: parsed, then from the cache, then the functions."""
    trees = {"before": stated.against.resolve(), "after": ROOT} if stated.against else {"this": ROOT}
    for how in ("parsed, and stored", "from the cache", "from the cache again"):
        runs = [(who, measured(tree, trace, f"{trace.parent}/{who}", 0)) for who, tree in trees.items()]
        yield f"## {how.capitalize()}\n\n{stages_of(runs)}"
    for who, tree in trees.items() if stated.functions else ():
        run = measured(tree, trace, f"{trace.parent}/{who}", stated.functions)
        yield f"## Functions, {who}\n\n{functions_of(run)}"


def main() -> None:
    """Runs the stages and prints the report."""
    options = parser(__doc__)
    options.add_argument("--size", type=size_of, default="200M")
    options.add_argument("--source", type=Path, default=SAMPLE)
    options.add_argument("--against", type=Path, help="another checkout, measured in turn")
    options.add_argument("--functions", type=int, default=0, metavar="N")
    stated = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "synthetic.json"
        replicate(stated.source, trace, stated.size)
        about = (
            f"{trace.stat().st_size / 1e6:.0f} MB of text, synthetic. CPU seconds: user and system; beside other work "
            "only their ratios mean something."
        )
        publish(page("Stages of an analysis", about, *compared(stated, trace)), stated.write, "stages")


if __name__ == "__main__":
    main()
