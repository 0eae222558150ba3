"""Puts the hooks into a module that the job has just imported."""

from __future__ import annotations

import sys
from importlib import import_module

_HOOKS = {"torch": "torch_hooks", "transformers.trainer": "trainer_hooks"}
_installed: set[str] = set()


def after_import(module: str) -> None:
    """Install the hooks for `module`, once; not in children of multiprocessing, such as DataLoader workers."""
    if module not in _HOOKS or module in _installed or _is_multiprocessing_child():
        return
    _installed.add(module)
    import_module(f".{_HOOKS[module]}", __package__).install()


def _is_multiprocessing_child() -> bool:
    process = sys.modules.get("multiprocessing.process")
    return process is not None and process.parent_process() is not None
