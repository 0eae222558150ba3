"""The boards of a planned job, and how many machines hold them."""

from diagnose.hardware import Gpu
from diagnose.hardware.named import gpu_named

__all__ = ["fewest_nodes", "gpu_named"]

GPUS_PER_NODE = 8  # of a machine that nobody describes
NVLINK_GPUS = {"GB200": 64, "GB300": 64}
"""Of the 72 that one switch joins, those that a job of a power of two takes."""


def family(board: str) -> str:
    """The chip of a board: what its name begins with, so that H100s with other memory are one family."""
    return board.split("-", 1)[0]


def fewest_nodes(gpus: int, gpu: Gpu | None = None) -> int:
    """Least number of machines that hold the GPUs in equal parts: of at most eight, or as many as NVLink joins."""
    most = NVLINK_GPUS.get(family(gpu.key), GPUS_PER_NODE) if gpu else GPUS_PER_NODE
    return next(nodes for nodes in range(1, gpus + 1) if gpus % nodes == 0 and gpus // nodes <= most)
