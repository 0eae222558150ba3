"""Files in, a Diagnosis out: each rank by itself, the ranks of a run, and the job."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from diagnose.analysis.job import Examined, analyze, examined
    from diagnose.analysis.options import Options

__all__ = ["Examined", "Options", "analyze", "examined"]


def __getattr__(name: str) -> Any:
    """What `job` has, on first use: the processes that read ranks need neither the metrics nor the judge."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from diagnose.analysis import job

    return getattr(job, name)
