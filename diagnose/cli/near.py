"""The spelling of a folder by which a user reaches it from here."""

import os
from pathlib import Path


def near(folder: Path) -> str:
    """The folder as a user would type it."""
    try:
        relative = os.path.relpath(folder)
    except OSError:  # the working folder is gone
        return str(folder)
    return str(folder) if relative.startswith("..") else relative
