"""From a large trace file to the printed verdict, against other ways to read it: wall, CPU and peak memory.

    python benchmarks/load.py --size 1G --vs hta --source trace.json.gz --hta-python venv/bin/python --report
    python benchmarks/load.py --size 20M --size 1G --source a.json.gz --source b.json.gz --vs hta \\
        --hta-python "HTA, pandas 2=venv2/bin/python" --hta-python "traceinsight, pandas 3=venv3/bin/python"

The traces are synthetic: small ones again and again (replicate.py). Every reader runs in fresh processes, in turn with
the others, on a text that the system holds in memory, and every round is given. HTA loads the trace and computes four
breakdowns (temporal, idle, kernel, communication-computation overlap). "Hashed and kept" is the command that leaves a
new file in the cache, as it does unless `--no-cache` is given; "again" is the same command once more, "columns from the
cache" one with other options. Floors are what any reader has to do at least: take the bytes, decode the fields
in use, make objects of all.
The ratios hold across machines, the seconds do not.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from loading.compared import Measured, compared, never_again
from loading.names import free_name
from loading.plot import drawn, panels
from loading.pythons import Interpreter, found, interpreter
from loading.readers import OTHERS, Reader, ours
from loading.sources import source_of
from loading.tables import machine, report
from replicate import replicate, size_of

REPORTS = Path(__file__).parent / "reports"
SAMPLE = Path(__file__).parent.parent / "sample_traces" / "synthetic-memory-bound.json.gz"
SMALL = "14M"


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


def command_of(stated: argparse.Namespace) -> str:
    """The command line as anybody can give it: without the places of files."""
    words = ["python", "benchmarks/load.py"]
    words += [word for size in stated.size for word in ("--size", size)]
    words += [word for source in stated.source for word in ("--source", source.name)]
    words += ["--vs", *stated.vs, "--rounds", str(stated.rounds), "--limit", f"{stated.limit:g}"]
    words += [word for each in stated.hta_python for word in ("--hta-python", f"{each.name}=PYTHON".lstrip("="))]
    return shlex.join(words)


def head(stated: argparse.Namespace, load_before: float) -> str:
    """The report's title and how it was made."""
    return (
        f"# Loading, {time.strftime('%Y-%m-%d')}\n\n`{command_of(stated)}`, {machine(load_before)}\n\n"
        "From the file, which the system holds in memory, to the printed verdict; hta: load and four breakdowns. Peak: "
        "all processes of a reader together. The traces are synthetic, one real trace again and again, in six steps. "
        "The first table is of the best round of each."
    )


def main() -> None:
    """Runs the comparison and prints the report."""
    stated = _stated()
    load_before = os.getloadavg()[0]
    others = found(stated.vs, stated.hta_python or [Interpreter("", sys.executable)])
    readers = [*ours(), *others.readers]
    texts = list(measured(readers, stated.source, sizes_of(stated.size), stated.rounds, stated.limit))
    picture = drawn(panels(texts), {reader.name: reader.kind for reader in readers})
    name = free_name(stated.report, f"load-{time.strftime('%Y-%m-%d')}") if stated.report else ""
    plot = f"{name}.svg" if name and picture else ""
    written = report(head(stated, load_before), texts, others.versions, others.skipped, plot)
    sys.stdout.write(written)
    if stated.report:
        stated.report.mkdir(parents=True, exist_ok=True)
        (stated.report / f"{name}.md").write_text(written, encoding="utf-8")
        if picture:
            (stated.report / plot).write_text(picture, encoding="utf-8")
        sys.stderr.write(f"written: {name}.md{', ' if plot else ''}{plot}\n")


def _stated() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", help="such as 20M or 5G; of one alone, and 14M (default: 200M)")
    parser.add_argument("--source", action="append", type=Path, help="a small trace (default: one of the samples)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--limit", type=float, default=600, metavar="S", help="seconds that a run may take")
    parser.add_argument("--vs", nargs="*", choices=[*OTHERS], default=["json"])
    parser.add_argument(
        "--hta-python", action="append", type=interpreter, metavar="[NAME=]PATH",
        help="a Python that has HTA or other readers, with a name where there are several",
    )  # fmt: skip
    parser.add_argument("--report", nargs="?", type=Path, const=REPORTS, help="folder for the dated report")
    stated = parser.parse_args()
    stated.size, stated.source = stated.size or ["200M"], stated.source or [SAMPLE]
    stated.hta_python = stated.hta_python or []
    names = [each.name for each in stated.hta_python]
    if len({*names}) < len(names):
        parser.error("--hta-python: give each of several a name of its own: NAME=PATH")
    return stated


if __name__ == "__main__":
    main()
