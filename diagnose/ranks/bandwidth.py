"""How fast large messages travel between the ranks, once waiting is taken out."""

from collections.abc import Iterator, Sequence

import numpy as np

from diagnose.facts import Unknown
from diagnose.formulas.collectives import bus_bytes_per_s
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.match import GroupMatch, Match

LARGE_BYTES = 16 << 20  # from here on bandwidth outweighs latency (nccl-tests: half of the asymptote on NVLink)
UNDISTURBED = 90  # percentile: other messages share the links or the multiprocessors with kernels
NO_SIZES = Unknown("no collective of 16 MiB or more carries its size", "capture with torch 2.3 or later")


def bus_rate(ranks: Sequence[RankDigest], found: Match) -> float | Unknown:
    """Bus bandwidth, bytes/s, that the best of the large messages reach; one with no more than its transfer time."""
    if not ranks[0].has_gpu:
        return Unknown("the collectives did not run on GPUs", "nothing: the ranks communicate through the host")
    rates = [rate for group in found for rate in _rates(ranks, group)]
    return float(np.percentile(rates, UNDISTURBED)) if rates else NO_SIZES


def _rates(ranks: Sequence[RankDigest], group: GroupMatch) -> Iterator[float]:
    calls, rows = ranks[int(group.members[0])].calls, group.call[:, 0]
    for row, ns in zip(rows.tolist(), group.transfer.tolist(), strict=True):
        size, message = int(calls.size[row]), int(calls.bytes[row])
        if message >= LARGE_BYTES and size > 1 and ns > 0:
            yield bus_bytes_per_s(calls.kinds[int(calls.kind[row])], message, ns / 1e9, size)
