"""The cost of sampling the stack."""

from diagnose.facts import Unknown, Value, capture_setting
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

NOT_SAMPLED = Unknown("the stack was not sampled", capture_setting("diagnose run"))


@metric("share", "the sampled steps", needs_gpu=False)
def sampling_cost_share(m: Measured) -> Value:
    """CPU time of the samples that `diagnose run` takes of the stack, of the steps in which it takes them: these are
    steps of their own, neither counted nor compared with others.
    """
    cost = m.user_code.cost_share
    return NOT_SAMPLED if cost is None else cost
