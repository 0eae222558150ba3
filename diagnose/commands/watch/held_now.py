"""The last readings in a rank's log: memory of its process, clock and power of its GPU, goodput."""

from diagnose.series.timing_log import TimingLog

_MHZ = 1e6


def held_now(log: TimingLog) -> dict[str, float | None]:
    """The fields of a `RankView` by name; None is not in the log, as the clock of an idle GPU."""
    gauges = log.readings[-1].values if log.readings else {}
    clock = gauges.get("sm_clock_mhz")
    return {
        "goodput_share": None if log.goodput is None else log.goodput[0] / log.goodput[1],
        "host_memory_bytes": _last(log, "rss"),
        "device_memory_bytes": _last(log, "device"),
        "sm_clock_hz": None if clock is None else clock * _MHZ,
        "power_w": gauges.get("power_w"),
    }


def _last(log: TimingLog, kind: str) -> float | None:
    readings = log.memory.get(kind)
    return float(readings[-1][1]) if readings else None
