"""What runs inside the training process: capture a few steps of it as a trace.

    from diagnose.probes import profile

    with profile("traces") as steps:
        for batch in loader:
            ...
            steps.step()

or, with transformers' Trainer, `callbacks=[DiagnoseCallback("traces")]`.

Importing this module imports nothing but the standard library; torch is imported when a capture begins.
"""

from .torch_profiler import profile, range
from .trainer_hooks import DiagnoseCallback

__all__ = ["DiagnoseCallback", "profile", "range"]
