"""Writes docs/images/*.png: the HTML reports of bundled real captures in headless Chromium.

    python docs/screenshots.py
    python docs/screenshots.py FOLDER TRACE...     # FOLDER/1.png, ...: the first screen of each trace on a telephone

Needs Chromium (Debian's package will do) in the PATH; the report itself needs none.
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from diagnose import __version__
from diagnose.analysis import analyze
from diagnose.report.html import About, page

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tests"))  # where the driver of the browser tests is

from browser import CHROMIUM, Browser, browser  # noqa: E402

LLAMA = "sample_traces/h200-llama-eager.json.gz"
RANKS = "sample_traces/gloo-slow-rank"
STACKS = "tests/measured/h100-eager-attention"


@dataclass(frozen=True)
class Picture:
    """A window on the page of a capture, after a script that brings the part in question into view."""

    name: str
    of: str
    width: int
    height: int
    scheme: str = "light"
    script: str = ""


def into_view(section: str) -> str:
    """The script that scrolls to a section."""
    return f"document.querySelector('#{section}').scrollIntoView()"


PICTURES = (
    Picture("report-light.png", LLAMA, 1100, 900),
    Picture("report-phone.png", LLAMA, 400, 800),
    Picture("report-dark.png", LLAMA, 1100, 760, "dark", into_view("timeline")),
    Picture("report-roofline.png", LLAMA, 1100, 640, script=into_view("roofline")),
    Picture("report-stacks.png", STACKS, 1100, 640, script=into_view("user-code")),
    Picture("report-ranks.png", RANKS, 1100, 560, script=into_view("job-timeline")),
)


def main(words: list[str]) -> int:
    """Take the pictures of the docs anew, or those of the traces that the words name."""
    if not CHROMIUM:
        print("Chromium is not installed", file=sys.stderr)
        return 1
    to = Path(words[0]) if words else HERE / "images"
    phones = (Picture(f"{number}.png", of, 400, 800) for number, of in enumerate(words[1:], 1))
    with tempfile.TemporaryDirectory() as folder, browser(Path(folder) / "profile") as tab:
        for picture in tuple(phones) or PICTURES:
            report = Path(folder) / f"{Path(picture.of).name}.html"
            if not report.exists():
                about = About(__version__, f"diagnose analyze {picture.of} --html report.html")
                report.write_text(page(analyze(HERE.parent / picture.of), about), encoding="utf-8")
            take(tab, picture, report, to / picture.name)
    return 0


def take(tab: Browser, picture: Picture, report: Path, to: Path) -> None:
    """Write the picture of the report."""
    tab.open(report, width=picture.width, height=picture.height, scheme=picture.scheme)
    tab.run(picture.script or "null")
    tab.screenshot(to)
    print(f"{to}: {to.stat().st_size:,} bytes")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
