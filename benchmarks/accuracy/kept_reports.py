"""Parts of the page with commands of their own: each is the newest report of its command."""

from pathlib import Path

REPORTS = Path(__file__).parents[1] / "reports"


def newest_pairs(folder: Path = REPORTS) -> Path | None:
    """The newest report of small jobs that ran for real (`python -m benchmarks.pairs`); None where there is none."""
    return _newest("pairs", folder)


def real_jobs(folder: Path = REPORTS) -> str:
    """What that report says, with its name; "" where there is none."""
    return _said(newest_pairs(folder))


def kinds_left_out(folder: Path = REPORTS) -> str:
    """The same of the newest report of `python -m benchmarks.accuracy.left_out`."""
    return _said(_newest("left-out", folder))


def _newest(kind: str, folder: Path) -> Path | None:
    return max(folder.glob(f"{kind}-2*.md"), key=lambda path: path.stem, default=None)


def _said(report: Path | None) -> str:
    if report is None:
        return ""
    _, _, said = report.read_text(encoding="utf-8").partition("\n\n")
    return f"[{report.name}](../benchmarks/reports/{report.name}), {said.strip()}"
