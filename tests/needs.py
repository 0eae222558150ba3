"""What some tests need beside the analysis."""

from importlib.util import find_spec

import pytest


def needs(*modules: str) -> None:
    """Skip the module or the test where one is missing. Nothing is imported here: torch alone takes seconds."""
    for name in modules:
        if find_spec(name) is None:
            pytest.skip(f"needs {name}", allow_module_level=True)
