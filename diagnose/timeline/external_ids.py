"""The meaning of the `External id` of events, and its use for GPU activities that have no correlation.

Kineto writes two numbers under this name. Mostly it is the number of the operator that was running, which a runtime
call and its activities carry as well. Old versions, and those for ROCm, write the correlation there, for calls and
activities alike, some of them nowhere else; operators then have numbers of another series.
"""

import re
from dataclasses import replace

import numpy as np

from diagnose.arrays import ABSENT, Ints, among, first_of, numbered
from diagnose.trace import Trace
from diagnose.trace.vocabulary import GPU_CATEGORIES, OPS, RUNTIME

_NONE = -1
_NEARLY_ALL = 0.99
_STARTS_WORK = re.compile(r"(cuda|hip|cu)\w*(Launch|Memcpy|Memset)")


def correlated(trace: Trace) -> Trace:
    """Return the trace with correlations if it has none: the external ids of calls that no other call shares.

    Only calls that start work on the device count: the call with the number of an activity started it, whichever of the
    two numbers it is. Calls that share a number cannot be distinguished, so they get none.
    """
    host, device = trace.rows_of(*RUNTIME), trace.rows_of(*GPU_CATEGORIES)
    if not device.any() or (trace.correlation[host | device] > 0).any():
        return trace
    calls = np.flatnonzero(host & trace.named(_STARTS_WORK.match) & (trace.external_id > 0))
    distinct, which = numbered(trace.external_id[calls])
    calls = calls[(np.bincount(which, minlength=len(distinct)) == 1)[which]]
    if not len(calls):
        return trace
    started = np.flatnonzero(device)
    linked = np.append(calls, started[among(trace.external_id[started], trace.external_id[calls])])
    correlation = trace.correlation.astype(trace.external_id.dtype)
    correlation[linked] = trace.external_id[linked]
    if _are_of_operators(trace):
        return replace(trace, correlation=correlation)
    external_id = trace.external_id.copy()
    external_id[host | device] = ABSENT
    return replace(trace, correlation=correlation, external_id=external_id)


def operators_by_id(trace: Trace, activities: Ints) -> Ints:
    """For each GPU activity, the row of the operator whose external id it carries; -1 without one.

    All are -1 if the ids are other numbers, or if activities would begin before their operators.
    """
    operator = np.full(len(activities), _NONE, np.int64)
    with_id = np.flatnonzero(trace.external_id[activities] > 0)
    if not len(with_id) or not _are_of_operators(trace):
        return operator
    rows = activities[with_id]
    found = _carriers(trace, rows)
    known = found >= 0
    possible = trace.ts[found[known]] <= trace.ts[rows[known]]
    if len(possible) and possible.mean() >= _NEARLY_ALL:
        operator[with_id[np.flatnonzero(known)[possible]]] = found[known][possible]
    return operator


def _are_of_operators(trace: Trace) -> bool:
    """Whether the external ids of runtime calls are numbers of operators: nearly each call is inside the one it names.

    It is true if no call names an operator.
    """
    calls = np.flatnonzero(trace.rows_of(*RUNTIME) & (trace.external_id > 0))
    operator = _carriers(trace, calls)
    calls, operator = calls[operator >= 0], operator[operator >= 0]
    at = trace.ts[calls]
    inside = (trace.ts[operator] <= at) & (at <= trace.ends(operator)) & (trace.tid[operator] == trace.tid[calls])
    return bool(inside.mean() >= _NEARLY_ALL) if len(calls) else True


def _carriers(trace: Trace, rows: Ints) -> Ints:
    """For each event, the row of the first operator with its external id, -1 without one."""
    operators = np.flatnonzero(trace.rows_of(*OPS) & (trace.external_id > 0))
    at = first_of(trace.external_id[operators], trace.external_id[rows])
    return np.where(at >= 0, np.append(operators, _NONE)[at], _NONE)
