"""Steps by what repeats: the same kernels in the same order, with a result read by the host in each round.

Layers repeat, too, and some make the host wait. So a period counts only if all of the capture consists of it, and if
something is copied to the host in each round: a loop reads its loss or its token, a layer reads nothing.
"""

import numpy as np

from diagnose.arrays import Ids, Ints
from diagnose.trace import Trace

_LEAST_ROUNDS = 3
_LEAST_KERNELS = 4
_MOST_CANDIDATES = 64


def round_ends(trace: Trace) -> Ints:
    """The end of the last kernel of each round; empty without a period. Incomplete rounds at the edges are left out."""
    kernels = np.flatnonzero(trace.rows_of("kernel"))
    kernels = kernels[np.argsort(trace.ts[kernels], kind="stable")]
    copies = trace.named_in(lambda name: "DtoH" in name, "gpu_memcpy")
    read = np.unique(np.searchsorted(trace.ts[kernels], trace.ts[copies], side="right"))
    read = read[read > 0]
    period = _period(trace.name[kernels], read)
    ended = np.maximum.accumulate(trace.ends(kernels))
    return ended[_cuts(read, period, len(kernels)) - 1] if period else ended[:0]


def _period(names: Ids, read: Ints) -> int:
    """Number of kernels after which the order of names repeats, by the distances at which results are read; else 0."""
    apart = np.unique(read[1:] - read[0]) if len(read) else read
    for period in apart[apart >= _LEAST_KERNELS][:_MOST_CANDIDATES].tolist():
        if _LEAST_ROUNDS * period > len(names):
            return 0
        if bool((names[period:] == names[:-period]).all()):
            return int(period)
    return 0


def _cuts(read: Ints, period: int, count: int) -> Ints:
    """Numbers of kernels before each boundary: behind the first read that comes again in every round."""
    for first in read[read < read[0] + period].tolist():
        cuts = np.arange(first, count + 1, period)
        if np.isin(cuts, read).all():
            return cuts
    return read[:0]
