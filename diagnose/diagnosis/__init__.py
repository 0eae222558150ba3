"""The answer: a frozen, versioned record that every report is a pure function of."""

from diagnose.diagnosis.advice import (
    Applied,
    Evidence,
    FactReport,
    Finding,
    NotAdvised,
    NotApplied,
    NotJudged,
    Patch,
    PlanStep,
    ReplayReport,
)
from diagnose.diagnosis.diagnosis import SCHEMA_VERSION, Diagnosis, schema, to_json
from diagnose.diagnosis.job import HistoryChange, Loss, RankReport, TraceSummary
from diagnose.diagnosis.kernels import KernelRow, Peak, RooflineEntry, Roofs
from diagnose.diagnosis.ledger import Convention, LedgerEntry, Mfu, Steps, Verdict, WaterfallPart
from diagnose.diagnosis.terms import (
    Bound,
    CauseClass,
    Confidence,
    FindingClass,
    LaneKind,
    Severity,
    SliceClass,
    VerdictClass,
)
from diagnose.diagnosis.timeline import Lane, SliceLabel, StepTimeline

__all__ = [
    "SCHEMA_VERSION",
    "Applied",
    "Bound",
    "CauseClass",
    "Confidence",
    "Convention",
    "Diagnosis",
    "Evidence",
    "FactReport",
    "Finding",
    "FindingClass",
    "HistoryChange",
    "KernelRow",
    "Lane",
    "LaneKind",
    "LedgerEntry",
    "Loss",
    "Mfu",
    "NotAdvised",
    "NotApplied",
    "NotJudged",
    "Patch",
    "Peak",
    "PlanStep",
    "RankReport",
    "ReplayReport",
    "RooflineEntry",
    "Roofs",
    "Severity",
    "SliceClass",
    "SliceLabel",
    "StepTimeline",
    "Steps",
    "TraceSummary",
    "Verdict",
    "VerdictClass",
    "WaterfallPart",
    "schema",
    "to_json",
]
