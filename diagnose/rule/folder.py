"""Locate the rules that come with the package."""

from pathlib import Path


def builtin_rules() -> Path:
    """The folder of the builtin rules: inside the package in a wheel, next to it in a checkout."""
    package = Path(__file__).parents[1]
    return next((path for path in (package / "rules", package.parent / "rules") if path.is_dir()), package / "rules")
