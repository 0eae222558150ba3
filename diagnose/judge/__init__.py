"""Ledgers, facts and rules to a Diagnosis."""

from diagnose.judge.case import Case
from diagnose.judge.judge import diagnose
from diagnose.judge.sections import Sections

__all__ = ["Case", "Sections", "diagnose"]
