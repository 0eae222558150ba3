"""A small rule, the facts that it may read, and where to write it; the units of all facts."""

from collections.abc import Mapping
from pathlib import Path

from diagnose.facts import Fact, Facts, Scalar, Unknown, capture_setting
from diagnose.metrics import units

SMALL = {
    "wait_share": "share",
    "idle_share": "share",
    "steps": "count",
    "peak_bytes": "bytes",
    "has_workers": "flag",
    "optimizer_kind": "text",
}
HEAD = """
title = "The GPU waits"
class = "data"
maturity = "stable"
says = "wait is {wait_share} of the step"
do = "Load sooner."
unless = "It is the first step."
see = ["https://docs.pytorch.org/docs/stable/data.html"]
"""
CONDITIONS = """
critical = "wait_share > 0.3"
warning = "wait_share > 0.1"
"""
EXAMPLES = """
[[example]]
name = "it waits"
facts = { wait_share = 0.2 }
expect = "warning"

[[example]]
name = "it does not"
facts = { wait_share = 0.0 }
expect = "quiet"
"""
MECHANISM = f"""
[mechanism]
why = "{"word " * 40}"
source = "a book on storage"
term = "BW"
axis = "data"
"""
GOOD = HEAD + CONDITIONS + EXAMPLES


def known() -> Mapping[str, str]:
    """The unit of every fact."""
    return units()


def facts(**values: Scalar) -> Facts:
    """The given facts known, the others of the small rule unknown."""
    return {
        name: Fact(name, values.get(name, Unknown(f"no {name}", capture_setting(name))), unit)
        for name, unit in SMALL.items()
    }


def written(folder: Path, text: str, name: str = "data-wait") -> Path:
    """The rule file in the folder."""
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path
