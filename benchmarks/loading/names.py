"""Names for dated reports."""

from pathlib import Path


def free_name(folder: Path, stem: str) -> str:
    """The stem for a new report: with -2, -3, ... where reports of that name are there."""
    number = 1
    name = stem
    while any((folder / f"{name}{ending}").exists() for ending in (".md", ".svg")):
        number += 1
        name = f"{stem}-{number}"
    return name
