"""The checkpoint interval that balances the time of checkpoints against the work that a failure loses."""

import math

PUBLISHED_GPU_HOURS = (8_090.0, 50_700.0)
"""GPU-hours between two failures that end a job, fewest and most of what is published.

Fewest: jobs of 1,024 A100 failed every 7.9 hours, those of 8 every 47.7 days (Kokolis et al. 2025, HPCA, two research
clusters over eleven months). Most: 419 unexpected interruptions of 16,384 H100 in 54 days (Llama Team 2024, table 5).
"""
NODE_GPUS = 8  # a smaller job fails no more often than the smallest of which a rate is published


def published_mtbf_s(gpus: int) -> tuple[float, float]:
    """Seconds between failures of a job on so many GPUs, fewest and most: failures grow with the GPUs."""
    fewest, most = PUBLISHED_GPU_HOURS
    return 3600 * fewest / max(gpus, NODE_GPUS), 3600 * most / max(gpus, NODE_GPUS)


def best_interval_s(cost_s: float, mtbf_s: float) -> float:
    """Seconds of work between two checkpoints that lose least: sqrt(2 · cost · MTBF) (Young 1974).

    Daly 2006 adds terms that matter if a checkpoint takes more than a tenth of the time between failures.
    """
    return math.sqrt(2 * cost_s * mtbf_s)


def lost_share(interval_s: float, cost_s: float, mtbf_s: float) -> float:
    """Share of the run that goes into checkpoints, and into work after the last one that is done again.

    Args:
        interval_s: work between two checkpoints.
        cost_s: of a checkpoint.
        mtbf_s: between two failures, each of which loses half an interval in the mean.
    """
    return cost_s / (cost_s + interval_s) + interval_s / (2 * mtbf_s)
