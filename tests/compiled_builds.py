"""Other builds of compiled code than the one installed, such as under a sanitizer."""

import importlib.util
from pathlib import Path
from typing import Any


def module_at(path: Path) -> Any:
    """The module of that file, whose name is the module's own."""
    spec = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
