"""The work of a step on a CPU that finds its caches cold, behind a wait or other code, and what it would take warm."""

COLD_S = 1e-3  # at most: measured, steps of 0.5 to 13 ms take 0.4 to 1.1 ms longer behind 8 to 33 ms of anything
COLD_SHARE = 0.6  # of the work, at most: measured, 2.2 to 2.9 times as long for 0.5 ms, 1.4 to 1.9 times for 1 ms
COLD_FOR = 0.25  # of what passes before it, at most: measured, 2 ms of Python cost 0.1 ms, 4 ms cost 1 ms
LEAST_COLD = 0.03  # of the work: less is below what other assumptions leave open


def warm_factor(work_s: float, before_s: float) -> float:
    """Time of work over that of now, at best, if nothing passed before it.

    Args:
        work_s: seconds that the work takes now.
        before_s: seconds of a wait, or of other code, before it.
    """
    if work_s <= 0:
        return 1.0
    lost = min(COLD_S / work_s, COLD_FOR * before_s / work_s, COLD_SHARE)
    return 1.0 if lost < LEAST_COLD else 1 - lost
