"""Small jobs that ran for real: the newest report of `python -m benchmarks.pairs`, which takes an idle machine."""

from pathlib import Path

REPORTS = Path(__file__).parents[1] / "reports"


def newest_pairs(folder: Path = REPORTS) -> Path | None:
    """The newest report; None where there is none."""
    return max(folder.glob("pairs-2*.md"), key=lambda path: path.stem, default=None)


def real_jobs(folder: Path = REPORTS) -> str:
    """What that report says, with its name; "" where there is none."""
    newest = newest_pairs(folder)
    if newest is None:
        return ""
    _, _, said = newest.read_text(encoding="utf-8").partition("\n\n")
    return f"[{newest.name}](../benchmarks/reports/{newest.name}), {said.strip()}"
