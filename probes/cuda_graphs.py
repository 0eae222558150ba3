"""Whether the job captures a CUDA graph: what waits for the device meanwhile, or times it, spoils the capture."""

from __future__ import annotations

import sys
from typing import Any

from .guard import quietly


def capturing() -> bool:
    """Whether this thread's stream is being captured; CUDA is not begun by the question."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(quietly(torch.cuda.is_current_stream_capturing))
