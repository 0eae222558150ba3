"""Compare the clock of a late rank's GPU with the others': a reason why kernels of the same work take longer."""

from collections.abc import Sequence
from statistics import median

from diagnose.ranks.digest import RankDigest

LOWER = 0.97  # of the others' clock: less apart is the usual spread of GPUs


def clock_words(rank: RankDigest, peers: Sequence[RankDigest]) -> str:
    """A clause on the clock of the rank's GPU and the others', and its limits; "" if it was not read."""
    if rank.clock is None:
        return ""
    others = [peer.clock.mhz for peer in peers if peer.clock is not None]
    mine = f"its clock is at {rank.clock.mhz:,.0f} MHz"
    beside = f", the others' at {median(others):,.0f} MHz" if others else ""
    held = f", held down by {' and '.join(rank.clock.held_by)}" if rank.clock.held_by else ""
    if others and rank.clock.mhz >= LOWER * median(others):
        return f"{mine}{beside}: not what makes it slower"
    return mine + beside + held
