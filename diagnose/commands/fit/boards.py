"""The boards of a planned job, and how many machines hold them."""

from diagnose.hardware.named import gpu_named

__all__ = ["fewest_nodes", "gpu_named"]

GPUS_PER_NODE = 8  # of a machine that nobody describes


def fewest_nodes(gpus: int) -> int:
    """Least number of machines, of at most eight GPUs each, that hold the GPUs in equal parts."""
    return next(nodes for nodes in range(1, gpus + 1) if gpus % nodes == 0 and gpus // nodes <= GPUS_PER_NODE)
