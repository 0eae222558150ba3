"""The code that runs inside the training process and captures a few of its steps as a trace.

from diagnose.probes import profile

with profile("traces") as steps:
        for batch in loader:
            ...
            steps.step()

or, with transformers' Trainer, `callbacks=[DiagnoseCallback("traces")]`.

Importing this package imports nothing further; a name is imported on first use, and torch when a capture begins.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .recording.in_code import profile, range
    from .trainers.transformers_trainer import DiagnoseCallback

__all__ = ["DiagnoseCallback", "profile", "range"]


def __getattr__(name: str) -> Any:
    """Load a name of `__all__` on first use: the analysis, which only reads the names of files here, pays for none."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = ".trainers.transformers_trainer" if name == "DiagnoseCallback" else ".recording.in_code"
    return getattr(import_module(home, __name__), name)
