"""The communication that other work hides, by unions of intervals."""

from diagnose import intervals as iv
from diagnose.formulas import share


def overlapped_share(communication: iv.Intervals, compute: iv.Intervals) -> float | None:
    """The part of the communication time beside which something computes (HTA's overlap)."""
    return share(iv.total(iv.intersect(communication, compute)), iv.total(communication))
