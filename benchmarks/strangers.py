"""What is said of each file of a folder, a line each, for people who review answers to captures of strangers.

    python benchmarks/strangers.py FOLDER [FOLDER ...]

A line holds the file, the class with its confidence, the first change with its promised range, and what is missing: why
the class is open, the notes on the capture, and for how many rules something was not recorded. A folder inside the
folder is one job. Files that no command can read, and commands that fail, are a line too. Nothing is written.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SNAPSHOTS = (".pickle", ".pkl")  # of memory, as torch's _dump_snapshot names them
TEXTS = (".md", ".txt", ".py", ".csv")  # what people leave beside the files
LIMIT_S = 300
WIDTHS = (40, 26, 44)


def inputs(folder: Path) -> Iterator[Path]:
    """What of the folder is diagnosed: its files and folders by name, texts left out; a file itself."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
        if not path.name.startswith(".") and path.suffix not in TEXTS:
            yield path


def line_of(path: Path) -> str:
    """The answer to one input in a line."""
    command = "memory" if path.suffix in SNAPSHOTS else "analyze"
    called = [sys.executable, "-m", "diagnose", command, str(path), "--json"]
    try:
        done = subprocess.run(called, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return _placed(path, "error", "", f"no answer within {LIMIT_S} s")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        return _placed(path, "error", f"exit {done.returncode}", " ".join(done.stderr.split()) or "no answer")
    cells = of_snapshot(answer) if command == "memory" else of_trace(answer)
    return _placed(path, *cells)


def of_trace(answer: Mapping[str, Any]) -> tuple[str, str, str]:
    """Class and confidence, the first change, and what is missing."""
    verdict, first = answer["verdict"], answer["next"]
    change = " ".join(part for part in (first["rule"] or first["kind"], promised(first["predicted_speedup"])) if part)
    return f"{verdict['class']}, {verdict['confidence']}", change, "; ".join(missing(answer))


def missing(answer: Mapping[str, Any]) -> Iterator[str]:
    """What the answer does without, the most telling first."""
    verdict, trace = answer["verdict"], answer["trace"]
    if verdict["class"] == "undecided":
        yield verdict["because"]
    yield from (f"note {each['rule']}" for each in answer["findings"] if each["class"] == "validity")
    if lost := trace["loss"]["events"]:
        yield f"{lost} events lost in reading"
    if trace["loss"]["truncated"]:
        yield "the file ends early"
    if answer["steps"]["device_time_ns"] is None:
        yield "no GPU activity"
    if unjudged := len(answer["not_judged"]):
        yield f"{unjudged} rules not judged"


def of_snapshot(answer: Mapping[str, Any]) -> tuple[str, str, str]:
    """The same of a memory snapshot: its first finding, and the number of things that it leaves unknown."""
    findings = answer["findings"]
    first = str(findings[0]["name"]) if findings else "nothing"
    unknown = len(answer["unknown"])
    return "memory", first, f"{unknown} unknown" if unknown else ""


def promised(gain: list[float | None] | None) -> str:
    """The range, as the report spells it."""
    if gain is None:
        return ""
    low, high = gain
    return f"{low:.2f}x or more" if high is None else f"{low:.2f}-{high:.2f}x"


def _placed(path: Path, *cells: str) -> str:
    padded = (f"{cell:<{width}}" for cell, width in zip((path.name, *cells), WIDTHS, strict=False))
    return "  ".join([*padded, cells[-1]]).rstrip()


def main() -> None:
    """Print a line for each input."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    for folder in parser.parse_args().folders:
        if not folder.exists():
            parser.error(f"there is no {folder}")
        for path in inputs(folder):
            print(line_of(path), flush=True)


if __name__ == "__main__":
    main()
