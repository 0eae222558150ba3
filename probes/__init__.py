"""What runs inside the training process: capture a few steps of it as a trace.

    from diagnose.probes import profile

    with profile("traces") as steps:
        for batch in loader:
            ...
            steps.step()

Importing this module imports nothing but the standard library; torch is imported when a capture begins.
"""

from diagnose.probes.torch_profiler import profile, range

__all__ = ["profile", "range"]
