"""From a large trace file to the printed verdict, against other ways to read it: wall, CPU and peak memory.

    python -m benchmarks.speed.load --size 1G --vs hta --source trace.json.gz --hta-python venv/bin/python --write
    python -m benchmarks.speed.load --size 20M --size 1G --source a.json.gz --source b.json.gz --vs hta \\
        --hta-python "HTA, pandas 2=venv2/bin/python" --hta-python "traceinsight, pandas 3=venv3/bin/python"

The traces are synthetic: small ones again and again (replicate.py). Every reader runs in fresh processes, in turn with
the others, on a text that the system holds in memory, and every round is given. HTA loads the trace and computes four
breakdowns (temporal, idle, kernel, communication-computation overlap). "Hashed and kept" is the command that leaves a
new file in the cache, as it does unless `--no-cache` is given; "again" is the same command once more, "columns from the
cache" one with other options. Floors are what any reader has to do at least: take the bytes, decode the fields
in use, make objects of all.
The ratios hold across machines, the seconds do not.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from measuring import ROOT
from reporting import page, parser, publish

from .compared import Measured, compared, never_again, source_of
from .readers import OTHERS, Interpreter, Reader, found, interpreter, ours
from .replicate import replicate, size_of
from .tables import parts

SAMPLE = ROOT / "sample_traces" / "synthetic-memory-bound.json.gz"
SMALL = "14M"
ABOUT = (
    "From the file, which the system holds in memory, to the printed verdict; hta: load and four breakdowns. Peak: all "
    "processes of a reader together. The traces are synthetic, one real trace again and again, in six steps. The first "
    "table is of the best round of each; beside other work only ratios within a round mean something."
)


def sizes_of(stated: Sequence[str]) -> list[str]:
    """The sizes to make, from small to large: one size stands beside a small one, several for themselves."""
    wanted = [*stated] or ["200M"]
    return sorted([SMALL, *wanted] if len(wanted) == 1 else wanted, key=size_of)


def measured(
    readers: Sequence[Reader], sources: Sequence[Path], sizes: Sequence[str], rounds: int, limit_s: float
) -> Iterator[Measured]:
    """Each source in each size, but for sizes that come to the same text as the one before."""
    for path in sources:
        source, left_out, before = source_of(path), dict[str, str](), 0
        for size in sizes:
            with tempfile.TemporaryDirectory() as folder:
                made = Path(folder) / f"synthetic-{size}.json"
                replicate(path, made, size_of(size))
                text_bytes = made.stat().st_size
                if text_bytes == before:
                    continue
                before = text_bytes
                sys.stderr.write(f"{source.name}, {text_bytes / 1e6:.0f} MB\n")
                runs = compared(readers, made, rounds, limit_s, left_out)
            left_out |= never_again(runs)
            yield Measured(source, text_bytes, runs)


def main() -> None:
    """Runs the comparison and prints the report."""
    stated = _stated()
    others = found(stated.vs, stated.hta_python or [Interpreter("", sys.executable)])
    readers = [*ours(), *others.readers]
    texts = list(measured(readers, stated.source, sizes_of(stated.size), stated.rounds, stated.limit))
    publish(page("Loading", ABOUT, *parts(texts, others.versions, others.skipped)), stated.write, "load")


def _stated() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--size", action="append", help="such as 20M or 5G; of one alone, and 14M (default: 200M)")
    options.add_argument("--source", action="append", type=Path, help="a small trace (default: one of the samples)")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--limit", type=float, default=600, metavar="S", help="seconds that a run may take")
    options.add_argument("--vs", nargs="*", choices=[*OTHERS], default=["json"])
    options.add_argument(
        "--hta-python", action="append", type=interpreter, metavar="[NAME=]PATH",
        help="a Python that has HTA or other readers, with a name where there are several",
    )  # fmt: skip
    stated = options.parse_args()
    stated.size, stated.source = stated.size or ["200M"], stated.source or [SAMPLE]
    stated.hta_python = stated.hta_python or []
    names = [each.name for each in stated.hta_python]
    if len({*names}) < len(names):
        options.error("--hta-python: give each of several a name of its own: NAME=PATH")
    return stated


if __name__ == "__main__":
    main()
