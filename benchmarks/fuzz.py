"""Damages traces of 50 to 300 events at random and analyses each: how many end in what, in how much time and memory.

    python benchmarks/fuzz.py --tries 10000

A try cuts, flips, repeats, shuffles or inserts bytes, in plain text or in a gzip stream, and takes the result through
the whole analysis. A traceback, more than 10 s, or memory that grows is a failure: the exit code is 1. The same seed
makes the same tries.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from kineto import Trace as Job  # of tests/
from rules_once import rules_read_once

from diagnose.analysis import analyze
from diagnose.errors import UserError

LONGEST_S = 10.0
MOST_GROWTH_MIB = 256
FEWEST, MOST, LARGEST_STEP = 50, 300, 55  # events of a trace, and of one of its steps
_INSERTED = (
    b'"', b"}", b"]", b"{", b"[", b",", b"\\", b"\x00", b"\xff", b"inf", b"]}", b"1e308", b"-", b"9" * 30, b"\x1b[2J",
    b'"ts": ', b'"dur": -1', b'"args": {', b'"ph": "X"', b"[bold]", b"../../", b"ProfilerStep#", b'"correlation": 0',
)  # fmt: skip


def job_of(seeded: random.Random) -> bytes:
    """The text of a small sound trace, in one of the layouts that are in use."""
    job = Job(gpu=None if seeded.random() < 0.1 else "NVIDIA H100 80GB HBM3")
    wanted = seeded.randint(FEWEST, MOST - LARGEST_STEP)
    while len(job.json()["traceEvents"]) < wanted:
        with job.step():
            job.loader(us=seeded.choice([0, 50, 900]))
            for _ in range(seeded.randint(2, 9)):
                if job.gpu:
                    job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
                else:
                    job.cpu_op("aten::mm", 40, [[64, 64], [64, 64]])
            if job.gpu:
                job.copy(4096)
                job.item()
    document = job.json()
    if seeded.random() < 0.3:
        seeded.shuffle(document["traceEvents"])
    return json.dumps(document, indent=seeded.choice([None, 1, 2])).encode()


def damaged(seeded: random.Random, text: bytes) -> bytes:
    """`text` after a few cuts, flips, repetitions, shuffles and insertions."""
    broken = bytearray(text)
    for _ in range(seeded.randint(1, 6)):
        if not broken:
            break
        begin = seeded.randrange(len(broken))
        end = min(len(broken), begin + seeded.choice([1, 10, 300, 3000]))
        _damage(seeded, broken, begin, end)
    return bytes(broken)


def _damage(seeded: random.Random, broken: bytearray, begin: int, end: int) -> None:
    what = seeded.randrange(7)
    if what == 0:
        del broken[begin:end]
    elif what == 1:
        broken[begin] ^= 1 << seeded.randrange(8)
    elif what == 2:
        broken[begin:begin] = broken[begin:end]
    elif what == 3:
        broken[begin:end] = bytes(seeded.sample(broken[begin:end], end - begin))
    elif what == 4:
        broken[begin:begin] = seeded.choice(_INSERTED)
    elif what == 5:
        del broken[begin:]
    else:  # a digit for a digit keeps the JSON sound and makes its numbers absurd
        digits = [i for i in range(begin, end) if 48 <= broken[i] <= 57]
        for i in digits[:20]:
            broken[i] = 48 + seeded.randrange(10)


def ending(path: Path) -> str:
    """How the analysis of the file ends: read whole, read with a loss, refused, or a defect with its name."""
    try:
        found = analyze(path)
    except UserError:
        return "refused"
    except Exception as error:
        return f"DEFECT {type(error).__name__}: {error}"[:200]
    return "read, with the loss stated" if found.trace.loss.kinds or found.trace.loss.events else "read whole"


def attempt(number: int, seed: int, folder: Path) -> tuple[str, float]:
    """The ending of one try and its seconds; the file stays in `folder` until the next."""
    seeded = random.Random(f"{seed}-{number}")
    text = job_of(seeded)
    packed = seeded.random() < 0.3
    path = folder / ("trace.json.gz" if packed else "trace.json")
    path.write_bytes(damaged(seeded, gzip.compress(text, 1)) if packed else damaged(seeded, text))
    begin = time.monotonic()
    end = ending(path)
    return end, time.monotonic() - begin


def fuzz(tries: int, seed: int, kept: Path | None = None) -> dict[str, Any]:
    """The endings of `tries` tries, the longest time, and the growth of memory behind the first tenth of them."""
    endings: Counter[str] = Counter()
    longest, before = 0.0, 0.0
    with tempfile.TemporaryDirectory() as folder, rules_read_once():
        for number in range(tries):
            end, seconds = attempt(number, seed, Path(folder))
            endings[end] += 1
            longest = max(longest, seconds)
            if number == tries // 10:
                before = _peak_mib()
            if kept and end.startswith("DEFECT"):
                _keep(Path(folder), kept, number)
    growth = round(_peak_mib() - before)
    return {"endings": dict(endings.most_common()), "longest_s": round(longest, 2), "growth_mib": growth}


def failed(result: dict[str, Any]) -> bool:
    """Whether anything happened that must not."""
    defects = any(end.startswith("DEFECT") for end in result["endings"])
    return defects or result["longest_s"] > LONGEST_S or result["growth_mib"] > MOST_GROWTH_MIB


def _keep(folder: Path, kept: Path, number: int) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
    (kept / f"{number}-{newest.name}").write_bytes(newest.read_bytes())


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for the files that end in a defect")
    arguments = parser.parse_args()
    outcome = fuzz(arguments.tries, arguments.seed, arguments.keep)
    sys.stdout.write(json.dumps({"tries": arguments.tries, "seed": arguments.seed, **outcome}, indent=2) + "\n")
    sys.exit(failed(outcome))
