"""Writes docs/images/*.png: the top, the ranks and the timeline of a bundled sample's HTML report in headless Chromium.

Needs Chromium (Debian's package will do) in the PATH; the report itself needs none.
"""

import sys
import tempfile
from pathlib import Path

from diagnose import __version__
from diagnose.analysis import analyze
from diagnose.report.html import About, page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))  # where the driver of the browser tests is

from browser import CHROMIUM, Browser, browser  # noqa: E402

SAMPLE = "sample_traces/synthetic-straggler"
WIDTH = 1100


def main() -> int:
    """Take the pictures anew."""
    if not CHROMIUM:
        print("Chromium is not installed", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder) / "profile") as tab:
        report = Path(folder) / "report.html"
        about = About(__version__, f"diagnose analyze {SAMPLE} --html report.html")
        report.write_text(page(analyze(HERE.parent / SAMPLE), about), encoding="utf-8")
        tab.open(report, width=WIDTH, height=900)
        picture(tab, "report-light.png")
        tab.open(report, width=WIDTH, height=640)
        tab.run("document.querySelector('#job-timeline').scrollIntoView()")
        picture(tab, "report-ranks.png")
        tab.open(report, width=WIDTH, height=760, scheme="dark")
        tab.run("document.querySelector('#timeline .show').click()")
        for _ in range(3):
            tab.run("document.querySelector('#timeline [data-zoom=out]').click()")
        tab.run("document.querySelector('#timeline').scrollIntoView()")
        picture(tab, "report-dark.png")
    return 0


def picture(tab: Browser, name: str) -> None:
    """The window as it is now."""
    to = HERE / "images" / name
    tab.screenshot(to)
    print(f"{to.relative_to(HERE.parent)}: {to.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main())
