"""What every benchmark writes: tables in Markdown, the command and the machine that made them, dated reports."""

import argparse
import os
import platform
import re
import shlex
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from math import sqrt
from pathlib import Path
from statistics import NormalDist

BENCHMARKS = Path(__file__).parent
REPORTS = BENCHMARKS / "reports"
_PLACE = re.compile(r"(^|=)/\S*/")


def parser(doc: str | None, *, writes: bool = True) -> argparse.ArgumentParser:
    """A parser that describes the module by its docstring, and has `--write` where a dated report can be written."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if writes:
        made.add_argument("--write", nargs="?", type=Path, const=REPORTS, metavar="FOLDER", help="write a dated report")
    return made


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def wilson(times: int, of: int) -> tuple[float, float]:
    """The 95 % interval of Wilson (1927) of a share that was seen `times` out of `of`."""
    z = NormalDist().inv_cdf(0.975)
    middle, half = (times + z**2 / 2) / (of + z**2), z * sqrt(times * (of - times) / of + z**2 / 4) / (of + z**2)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def rate(times: int, of: int) -> str:
    """A share with its 95 % interval."""
    if not of:
        return "none"
    low, high = wilson(times, of)
    return f"{times}/{of}: {times / of:.1%} ({low:.1%} to {high:.1%})"


def numbers(text: str) -> list[int]:
    """The whole numbers of "8,64,1024", as an option of the command line takes them."""
    return [int(number) for number in text.split(",")]


def command_line() -> str:
    """The command that is running as anybody can give it: paths without the places of this machine."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    script = ["-m", spec.name.removesuffix(".__main__")] if spec else [f"benchmarks/{Path(sys.argv[0]).name}"]
    return shlex.join(["python", *script, *(_PLACE.sub(r"\1", word) for word in sys.argv[1:])])


def machine() -> str:
    """What a benchmark ran on, and how busy it was."""
    return (
        f"Python {platform.python_version()}, {os.cpu_count()} cores of {platform.machine()}, load average "
        f"{os.getloadavg()[0]:.1f} at the end"
    )


def today() -> str:
    """The day, as reports are dated."""
    return datetime.now(UTC).date().isoformat()


def page(title: str, about: str, *parts: str) -> str:
    """A dated report: its title, the command, the machine, what the figures are, and the parts."""
    made = textwrap.fill(
        f"`{command_line()}`, {machine()}. {about}", 120, break_on_hyphens=False, break_long_words=False
    )
    return "\n\n".join([f"# {title}, {today()}", made, *parts]) + "\n"


def publish(text: str, folder: Path | None, stem: str) -> None:
    """Print a report, and write it below the folder, if there is one, as `stem-DATE.md`; no earlier one is replaced."""
    sys.stdout.write(text)
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{free_name(folder, f'{stem}-{today()}')}.md"
        path.write_text(text, encoding="utf-8")
        sys.stderr.write(f"written: {path}\n")


def free_name(folder: Path, stem: str) -> str:
    """The stem for a new report: with -2, -3, ... where reports of that name are there."""
    number, name = 1, stem
    while (folder / f"{name}.md").exists():
        number += 1
        name = f"{stem}-{number}"
    return name
