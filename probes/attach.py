"""Puts the hooks into a module that the job has just imported."""

from __future__ import annotations

import sys
from importlib import import_module

from . import frameworks, protocol

_installed: set[str] = set()


def after_import(module: str) -> None:
    """Install the hooks for `module`, once; not in children of multiprocessing, such as DataLoader workers."""
    if module in _installed or _is_multiprocessing_child():
        return
    _installed.add(module)
    for name in frameworks.hooks(protocol.hooked()).get(module, ()):
        import_module(f".{name}", __package__).install()


def _is_multiprocessing_child() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
