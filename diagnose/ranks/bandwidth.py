"""How fast large messages travel between the ranks, once waiting is taken out."""

import numpy as np

from diagnose.facts import Unknown
from diagnose.formulas.collectives import bus_bytes_per_s
from diagnose.ranks.match import Match
from diagnose.ranks.messages import messages_of
from diagnose.timeline import Timeline

LARGE_BYTES = 16 << 20  # from here on bandwidth outweighs latency (nccl-tests: half of the asymptote on NVLink)
UNDISTURBED = 90  # percentile: other messages share the links or the multiprocessors with kernels
NO_SIZES = Unknown("no collective of 16 MiB or more carries its size", "capture with torch 2.3 or later")


def bus_rate(timeline: Timeline, found: Match) -> float | Unknown:
    """Bus bandwidth, bytes/s, that the best of the large messages reach; one with no more than its transfer time.

    Args:
        timeline: the first rank of the match.
        found: the matched collectives.
    """
    if not timeline.has_gpu:
        return Unknown("the collectives did not run on GPUs", "nothing: the ranks communicate through the host")
    sent = messages_of(timeline, np.ones(len(timeline.gpu), bool))
    at = {int(row): i for i, row in enumerate(timeline.gpu.row[sent.activity])}
    rates = [
        bus_bytes_per_s(str(sent.kind[i]), int(sent.bytes[i]), ns / 1e9, int(sent.ranks[i]))
        for row, ns in zip(found.row.tolist(), found.transfer.tolist(), strict=True)
        if (i := at.get(row)) is not None and sent.bytes[i] >= LARGE_BYTES and sent.ranks[i] > 1 and ns > 0
    ]
    return float(np.percentile(rates, UNDISTURBED)) if rates else NO_SIZES
