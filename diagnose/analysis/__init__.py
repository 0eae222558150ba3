"""Files in, a Diagnosis out: each rank by itself, the ranks of a run, and the job."""

from diagnose.analysis.job import Examined, Options, analyze, examined

__all__ = ["Examined", "Options", "analyze", "examined"]
