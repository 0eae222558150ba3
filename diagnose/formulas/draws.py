"""Bootstrap draws of the steps: how far a result of few steps can be trusted (Efron, 1979)."""

import numpy as np

from diagnose.arrays import Ints

DRAWS = 400
MOST = 0.9  # share of the draws between the ends of a range
ENDS = ((1 - MOST) / 2, (1 + MOST) / 2)


def draws_of(steps: int) -> Ints:
    """Indices of the steps in each bootstrap draw, the same in every process: shape (DRAWS, steps)."""
    return np.random.default_rng(0).integers(0, steps, (DRAWS, steps))
