"""What `diagnose analyze` answers: the diagnosis, which the core makes."""

from diagnose.diagnosis import Diagnosis

__all__ = ["Diagnosis"]
