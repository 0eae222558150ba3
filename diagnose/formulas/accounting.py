"""Exposed and overlapped communication by unions of intervals."""

from diagnose import intervals as iv


def exposed_ns(communication: iv.Intervals, compute: iv.Intervals) -> int:
    """Nanoseconds of communication during which nothing computes."""
    return iv.total(iv.subtract(communication, compute))


def overlapped_share(communication: iv.Intervals, compute: iv.Intervals) -> float:
    """Share of the communication time that overlaps with compute (HTA's overlap). Undefined without communication."""
    return iv.total(iv.intersect(communication, compute)) / iv.total(communication)
