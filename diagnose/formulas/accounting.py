"""Shares: a part of a whole, and what of the communication something hides."""

from diagnose import intervals as iv


def share(part: float | None, whole: float | None) -> float | None:
    """The part over the whole; None if one is not known, or if there is no whole to have a part: missing is never zero.

    Whoever takes a part of nothing for 0 says so: `share(part, whole) or 0.0`.
    """
    return float(part / whole) if part is not None and whole is not None and whole > 0 else None


def overlapped_share(communication: iv.Intervals, compute: iv.Intervals) -> float | None:
    """The part of the communication time beside which something computes (HTA's overlap)."""
    return share(iv.total(iv.intersect(communication, compute)), iv.total(communication))
