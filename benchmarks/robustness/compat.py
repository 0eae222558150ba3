"""Runs the tests with other versions of Python and of what is installed beside, and writes docs/compatibility.md.

    python -m benchmarks.robustness.compat                  # every row of compat.toml, a new environment for each
    python -m benchmarks.robustness.compat --only "numpy 1.26"

What a row came to stays in compat.csv until it is run again; a row whose interpreter is not here, or whose packages pip
cannot have, says so.
"""

import argparse
import csv
import datetime
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TABLE = tomllib.loads((HERE / "compat.toml").read_text(encoding="utf-8"))
KEPT = HERE / "compat.csv"
PAGE = ROOT / "docs" / "compatibility.md"
TOLD = (
    "numpy", "pandas", "torch", "transformers", "accelerate", "lightning", "trl", "holistictraceanalysis",
    "traceinsight", "tensorboard", "wandb", "mlflow",
)  # fmt: skip
TESTING = ("pytest>=8", "pytest-xdist", "hypothesis", "jsonschema", "pyyaml")


@dataclass(frozen=True)
class Ran:
    """What a row came to: when, with which versions, and how its tests ended."""

    what: str
    day: str
    versions: str
    came_to: str


def run(row: dict[str, Any], folder: Path) -> Ran:
    """Makes the environment of a row in `folder`, and runs its tests there."""
    today = datetime.date.today().isoformat()
    interpreter = shutil.which(f"python{row['python']}")
    if interpreter is None or subprocess.run([interpreter, "--version"], capture_output=True, check=False).returncode:
        return Ran(row["what"], today, "", f"not run: no Python {row['python']} here")
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    installs = [python, "-m", "pip", "install", "--quiet", "-e", str(ROOT), *TESTING, *row.get("with", ())]
    installed = subprocess.run(installs, capture_output=True, text=True, check=False)
    if installed.returncode:
        return Ran(row["what"], today, "", f"not run: {_reason(installed.stderr)}")
    words = [word for suite in row["tests"] for word in TABLE["suites"][suite]]
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
    done = subprocess.run(tests, cwd=ROOT, capture_output=True, text=True, check=False)
    sys.stderr.write(done.stdout[-4000:] + done.stderr[-1000:] if done.returncode else "")
    last = re.sub(r" in [\d.]+s.*", "", done.stdout.strip().splitlines()[-1].strip("= ")) if done.stdout else "no tests"
    return Ran(row["what"], today, _versions(python), last)


def _reason(told: str) -> str:
    lines = [line for line in told.splitlines() if line.startswith("ERROR")]
    return lines[-1].removeprefix("ERROR: ")[:150] if lines else "pip cannot install it"


def _versions(python: Path) -> str:
    listed = subprocess.run([python, "-m", "pip", "list", "--format", "json"], capture_output=True, check=True).stdout
    versions = {each["name"].lower(): each["version"] for each in json.loads(listed)}
    said = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return ", ".join([said, *(f"{name} {versions[name]}" for name in TOLD if name in versions)])


def kept() -> dict[str, Ran]:
    """What rows came to before."""
    if not KEPT.exists():
        return {}
    with KEPT.open(newline="", encoding="utf-8") as file:
        return {row["what"]: Ran(**row) for row in csv.DictReader(file)}


def keep(ran: dict[str, Ran]) -> None:
    """The rows of the table, as far as they were run."""
    with KEPT.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["what", "day", "versions", "came_to"])
        rows.writerows([one.what, one.day, one.versions, one.came_to] for one in ran.values())


def page(ran: dict[str, Ran]) -> str:
    """docs/compatibility.md."""
    lines = [
        "# Versions",
        "",
        "Which versions the tests ran with, when, and how they ended: `python -m benchmarks.robustness.compat`",
        "makes an environment for each row of `benchmarks/robustness/compat.toml` and writes this page. A row that was",
        "not run says why.",
        "",
        "| what | versions | tests | day |",
        "|---|---|---|---|",
    ]
    for row in TABLE["row"]:
        nothing = Ran(row["what"], "", "", f"not run: {row['instead']}" if "instead" in row else "not run")
        one = ran.get(row["what"], nothing)
        lines.append(f"| {one.what} | {one.versions} | {one.came_to} | {one.day} |")
    suites = [f"- *{name}*: `pytest {' '.join(words)}`" for name, words in TABLE["suites"].items()]
    of_rows = "; ".join(f"{row['what']}: *{' and '.join(row['tests'])}*" for row in TABLE["row"] if "tests" in row)
    return "\n".join([*lines, "", "The tests of a row are of these suites:", "", *suites, "", f"{of_rows}.", ""])


def main() -> None:
    """Runs the rows and writes what they came to after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    runnable = [row for row in TABLE["row"] if "instead" not in row]
    parser.add_argument(
        "--only", nargs="*", choices=[row["what"] for row in runnable], help="these rows; none: the page"
    )
    only = parser.parse_args().only
    ran = kept()
    for row in runnable:
        if only is None or row["what"] in only:
            with tempfile.TemporaryDirectory(prefix="compat-") as folder:
                ran[row["what"]] = run(row, Path(folder))
            sys.stderr.write(f"{row['what']}: {ran[row['what']].came_to}\n")
            keep({each["what"]: ran[each["what"]] for each in runnable if each["what"] in ran})
    PAGE.write_text(page(ran), encoding="utf-8")


if __name__ == "__main__":
    main()
