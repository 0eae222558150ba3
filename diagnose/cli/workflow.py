"""Annotations that a GitHub workflow shows next to the code of a pull request, at its file and line."""

import os
from pathlib import PurePosixPath


def here(file: str) -> str:
    """The longest end of a path of the training's machine that is a file below the working folder, "" without one."""
    parts = PurePosixPath(file.replace("\\", "/")).parts
    if ".." in parts or "\0" in file:
        return ""
    ends = (PurePosixPath(*parts[i:]) for i in range(len(parts)) if parts[i] != "/")
    return next((str(end) for end in ends if os.path.isfile(end)), "")
