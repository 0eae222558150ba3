"""Long steps of an armed run after those that the record of a window has."""

from diagnose.diagnosis import LaterStall
from diagnose.series.stalls import long_samples
from diagnose.series.tracks import ARMED, Series

MOST = 3


def stalls_after(series: Series, step: int) -> tuple[LaterStall, ...]:
    """The longest steps behind that one of those that take much longer than the ones around them, in order.

    Empty of logs that others wrote: they may count steps otherwise than the job.
    """
    longest: dict[int, LaterStall] = {}
    for track in series.tracks if series.kind == ARMED else ():
        for row, usual_s in zip(*long_samples(track), strict=True):
            at, ns = int(track.step[row]), round(float(track.seconds[row]) * 1e9)
            if at > step and (at not in longest or ns > longest[at].ns):
                longest[at] = LaterStall(step=at, ns=ns, usual_ns=round(float(usual_s) * 1e9))
    chosen = sorted(longest.values(), key=lambda stall: -stall.ns)[:MOST]
    return tuple(sorted(chosen, key=lambda stall: stall.step))
