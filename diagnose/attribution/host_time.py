"""The host's time by cause, whether or not the device waits for it."""

from diagnose import intervals as iv
from diagnose.arrays import Ints
from diagnose.attribution.idle import Host, untraced_of
from diagnose.intervals import Intervals


def host_time(host: Host, windows: Ints) -> dict[str, Intervals]:
    """The host's time in the windows, shape (n, 2), by cause, disjoint, with the precedence that idle gaps have."""
    left = iv.intervals(windows[:, 0], windows[:, 1])
    painted: dict[str, Intervals] = {}
    for cause, pieces in host.layers(iv.EMPTY, iv.EMPTY):
        free = iv.intersect(pieces, left)
        left = iv.subtract(left, free)
        painted[host.observed(cause)] = iv.union(painted.get(host.observed(cause), iv.EMPTY), free)
    holes = untraced_of(host.timeline, left)
    for cause, pieces in (("untraced", holes), (host.observed("python"), iv.subtract(left, holes))):
        painted[cause] = iv.union(painted.get(cause, iv.EMPTY), pieces)
    return painted
