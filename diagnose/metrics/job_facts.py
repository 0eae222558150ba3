"""The facts of a job from those of its ranks."""

import math
from collections import Counter
from collections.abc import Sequence

from diagnose.facts import HOST_STEP, STEP, Fact, Facts, Unknown


def merged(ranks: Sequence[Facts], weights: Sequence[float] | None = None) -> Facts:
    """Facts of the job: numbers are means over the ranks that know them, flags hold if any rank's does.

    Means of whole numbers are rounded up: no setting takes 7.5 loader workers.

    Args:
        ranks: the facts of each.
        weights: the time accounted on each, by which shares of the step are weighted, as the ledger's are.
    """
    if len(ranks) == 1:
        return ranks[0]
    by_time = list(weights or [1.0] * len(ranks))
    return {name: _merged_fact([facts[name] for facts in ranks], by_time) for name in ranks[0]}


def _merged_fact(facts: Sequence[Fact], by_time: Sequence[float]) -> Fact:
    first = facts[0]
    values = [f.value for f in facts if not isinstance(f.value, Unknown)]
    if not values:
        return first
    if all(isinstance(v, bool) for v in values):
        return Fact(first.name, any(values), first.unit, first.of)
    if any(isinstance(v, str) for v in values):
        return Fact(first.name, Counter(values).most_common(1)[0][0], first.unit, first.of)
    weights = by_time if first.of in (STEP, HOST_STEP) else [1.0] * len(facts)
    known = [(float(f.value), w) for f, w in zip(facts, weights, strict=True) if not isinstance(f.value, Unknown)]
    mean = sum(value * weight for value, weight in known) / max(sum(weight for _, weight in known), 1e-9)
    whole = all(isinstance(value, int) for value in values)
    return Fact(first.name, math.ceil(mean) if whole else mean, first.unit, first.of)
