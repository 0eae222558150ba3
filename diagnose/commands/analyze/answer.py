"""The answer of `diagnose analyze`: the diagnosis, which the core makes."""

from diagnose.diagnosis import Diagnosis

__all__ = ["Diagnosis"]
