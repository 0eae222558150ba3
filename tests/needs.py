"""What some tests need beside the analysis."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest


def needs(*modules: str) -> None:
    """Skip the module or the test where one is missing. Nothing is imported here: torch alone takes seconds."""
    for name in modules:
        if find_spec(name) is None:
            pytest.skip(f"needs {name}", allow_module_level=True)


def file_beside(variable: str, name: str) -> Path:
    """The file in the folder that the variable names; the test is skipped where the folder or the file is missing."""
    path = Path(os.environ.get(variable, "")) / name
    if variable not in os.environ or not path.is_file():
        pytest.skip(f"{variable} names no folder that holds {name}")
    return path
