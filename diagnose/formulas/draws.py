"""Other draws of the same steps: how far what few steps tell can be trusted (the bootstrap; Efron, 1979)."""

import numpy as np

from diagnose.arrays import Ints

DRAWS = 400
MOST = 0.9  # of the draws lie between the ends of a range
ENDS = ((1 - MOST) / 2, (1 + MOST) / 2)


def draws_of(steps: int) -> Ints:
    """Which of so many steps each draw takes, as many as there are, the same in every process: shape (DRAWS, steps)."""
    return np.random.default_rng(0).integers(0, steps, (DRAWS, steps))
