"""Ledgers, facts and rules to a Diagnosis."""

from diagnose.judge.case import Case
from diagnose.judge.judge import diagnose

__all__ = ["Case", "diagnose"]
