"""What of the communication nothing hides, by unions of intervals."""

from diagnose import intervals as iv


def overlapped_share(communication: iv.Intervals, compute: iv.Intervals) -> float:
    """Part of the communication time beside which something computes (HTA's overlap). Not defined without any."""
    return iv.total(iv.intersect(communication, compute)) / iv.total(communication)
