"""Runs of the small jobs: as they are, under `diagnose run`, with a patch; each beside what other processes took."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from advice_jobs.kinds import Kind

from .score import Ran, Told, others_share, samples_of, told_of

SCRIPTS = Path(__file__).parents[1] / "advice_jobs"
TIMEOUT_S = 300
QUIET = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "DIAGNOSE_LEDGER": "off", "HF_HUB_OFFLINE": "1"}
STEP_NS = re.compile(r"\bmean_step_ns (\d+)\b")  # anywhere in a line: ranks and libraries share the output
CANNOT_BE_APPLIED = 3
_BUSY = (0, 1, 2, 5, 6, 7)  # of /proc/stat: user, nice, system, irq, softirq, steal


def command(kind: Kind, options: Mapping[str, object]) -> list[str]:
    """How the job is started."""
    start = [sys.executable]
    if kind.ranks > 1:
        start += ["-m", "torch.distributed.run", f"--nproc_per_node={kind.ranks}", "--standalone"]
    return [*start, str(SCRIPTS / kind.script), *(f"{name}={json.dumps(value)}" for name, value in options.items())]


def ran(words: Sequence[str], folder: str) -> tuple[Ran, int, str]:
    """A command in a folder of its own, with its exit code and its errors.

    A job may die behind its last step, as threads of gloo may have it do: one that told its time has not failed.
    """
    began, busy, own = time.perf_counter(), _busy_s(), _own_s()
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, env=os.environ | QUIET, timeout=TIMEOUT_S, check=False, cwd=folder
        )
        code, out, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired:
        code, out, errors = 124, "", f"not ended after {TIMEOUT_S} s"
    wall = time.perf_counter() - began
    others = others_share(_busy_s() - busy, _own_s() - own, wall, os.cpu_count() or 1)
    found = STEP_NS.search(out)
    failed = "" if found else f"ended with {code}: {(errors.strip().splitlines() or ['no error'])[-1]}"
    return Ran(int(found[1]) if found else None, samples_of(out), others, failed), code, errors


def diagnosed(kind: Kind, folder: str) -> tuple[Told, Ran]:
    """What `diagnose run` says of the job as it is; without a report that is its last line."""
    answer = Path(folder) / "diagnosis.json"
    answer.unlink(missing_ok=True)
    run, _, errors = ran([*_asked(folder, "told"), "--json", str(answer), "--", *command(kind, kind.slow)], folder)
    if answer.is_file():
        return told_of(json.loads(answer.read_text())), run
    last = (errors.strip().splitlines() or [""])[-1]
    return Told("", text=last), run


def applied(kind: Kind, told: Told, folder: str) -> tuple[str, Ran | None]:
    """The first advice made by `diagnose run --apply`: "ran", "refused" or "crashed", and the run."""
    if not told.tried:
        return "", None
    patch = f"{folder}/diagnosis.json#{told.rule}"
    words = [*_asked(folder, "applied"), "--no-report", "--apply", patch, "--", *command(kind, kind.slow)]
    run, code, errors = ran(words, folder)
    if code == CANNOT_BE_APPLIED:
        return "refused", None
    return "crashed" if run.failed else "refused" if "diagnose: not applied" in errors else "ran", run


def in_turns(kind: Kind, options: Mapping[str, object], folder: str) -> tuple[Ran, Ran]:
    """The job as it is, and with the advice followed."""
    slow, _, _ = ran(command(kind, kind.slow), folder)
    followed, _, _ = ran(command(kind, options), folder)
    return slow, followed


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for what a job and its capture write."""
    return tempfile.TemporaryDirectory(prefix="pairs-")


def _asked(folder: str, name: str) -> list[str]:
    return [sys.executable, "-m", "diagnose", "run", "--no-ledger", "--out", f"{folder}/{name}"]


def _busy_s() -> float:
    """CPU seconds of all processes of the machine; what a virtual machine is denied counts, too."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    return sum(int(fields[at]) for at in _BUSY) / os.sysconf("SC_CLK_TCK")


def _own_s() -> float:
    """CPU seconds of this process and of all that it started and that ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
