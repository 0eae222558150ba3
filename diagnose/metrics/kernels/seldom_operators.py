"""Operators that training seldom needs at size: orders, permutations and draws of many elements."""

import numpy as np

from diagnose import intervals as iv
from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.roofline import nests
from diagnose.trace.vocabulary import OPS

SELDOM = (
    r"aten::(randperm|multinomial|sort|argsort|msort|unique_dim|_unique2?|unique_consecutive|nonzero|masked_select|"
    r"kthvalue|median|nanmedian|mode|bincount|histc|searchsorted|bucketize|cdist|_cdist_forward)$"
)
NONE = Unknown("no such operator runs in the steps", nothing_helps("there is none to shorten"))


@metric("text", needs_gpu=False)
def seldom_operator(m: Measured) -> Value:
    """The operator that takes longest of those that put in order, permute, draw or pick elements."""
    longest = m.once(_longest)
    return NONE if longest is None else longest[0]


@metric("share", STEP, needs_gpu=False)
def seldom_operator_share(m: Measured) -> Value:
    """Time of that operator: of its kernels or, without a GPU, its own."""
    if m.device_unseen:
        return m.device_unseen
    longest = m.once(_longest)
    return 0.0 if longest is None else longest[1]


def _longest(m: Measured) -> tuple[str, float] | None:
    trace = m.timeline.trace
    rows = m.in_steps_of_host(m.timeline.rows_matching(SELDOM, *OPS))
    rows = rows[~iv.holds(m.attribution.pieces("data-wait"), trace.ts[rows])]  # a loader's sampler may draw
    rows = rows[nests.parents(trace, rows) == nests.NONE]
    shares = {
        trace.names[name]: m.operators_share(rows[trace.name[rows] == name]) for name in np.unique(trace.name[rows])
    }
    known = [(name, share) for name, share in shares.items() if not isinstance(share, Unknown)]
    return max(known, key=lambda each: each[1], default=None)
