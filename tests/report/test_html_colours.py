"""The colours of the HTML report, light and dark: text stands out from what is behind it."""

import re
from pathlib import Path

import pytest

from diagnose.report import html

STATIC = Path(html.__file__).parent / "static"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(scheme: str) -> None:
    colours = variables(scheme)

    for text in ("ink", "soft", "link", "good", "bad", "warn"):
        for ground in ("card", "page", "code"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for ground in ("compute", "memory", "communication", "data", "host", "unexplained", "plain"):
        assert contrast("#10131a", colours[ground]) >= 4.5, ground
    for ground, text in heat(scheme):
        assert contrast(text, ground) >= 4.5, (ground, text)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_mark_or_its_edge_stands_out_from_the_card(scheme: str) -> None:
    colours = variables(scheme)

    for mark in ("compute", "memory", "communication", "data", "host", "unexplained", "plain"):
        seen = colours.get(f"{mark}edge", colours[mark])
        assert contrast(seen, colours["card"]) >= 3, mark


def variables(scheme: str) -> dict[str, str]:
    """The colours of a scheme: dark ones replace light ones."""
    blocks = re.findall(r":root \{(.*?)\}", (STATIC / "report.css").read_text(encoding="utf-8"), re.DOTALL)
    chosen = blocks[: 1 if scheme == "light" else 2]
    return {name: colour for block in chosen for name, colour in re.findall(r"--(\w+): (#\w+)", block)}


def heat(scheme: str) -> list[tuple[str, str]]:
    style = (STATIC / "figures.css").read_text(encoding="utf-8")
    levels = re.findall(r"\.h\d \{ background: (#\w+); color: (#\w+); \}", style)
    assert len(levels) == 16
    return levels[:8] if scheme == "light" else levels[8:]


def contrast(one: str, other: str) -> float:
    """The ratio of relative luminances, as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = digits if len(digits) == 6 else "".join(2 * digit for digit in digits)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
