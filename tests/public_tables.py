"""Public benchmark tables, which are not part of this project and which a test asks for by file name.

DIAGNOSE_PUBLIC_TABLES names the folder that holds them.
"""

import os
from pathlib import Path

import pytest

VARIABLE = "DIAGNOSE_PUBLIC_TABLES"


def public_table(name: str) -> Path:
    """The file; the test is skipped where the folder or the file is missing."""
    path = Path(os.environ.get(VARIABLE, "")) / name
    if VARIABLE not in os.environ or not path.is_file():
        pytest.skip(f"{VARIABLE} names no folder that holds {name}")
    return path
