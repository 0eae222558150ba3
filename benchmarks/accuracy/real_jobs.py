"""Small jobs that ran for real: the newest report of `benchmarks/first_advice.py`, which takes an idle machine."""

from pathlib import Path

REPORTS = Path(__file__).parents[1] / "reports"


def real_jobs(folder: Path = REPORTS) -> str:
    """What that report says, with its name; "" where there is none."""
    newest = max(folder.glob("first-advice-*.md"), default=None)
    if newest is None:
        return ""
    _, _, said = newest.read_text(encoding="utf-8").partition("\n\n")
    return f"[{newest.name}](../benchmarks/reports/{newest.name}), {said.strip()}"
