"""Whether the job captures a CUDA graph: waiting for the device meanwhile, or timing it, spoils the capture."""

from __future__ import annotations

import sys
from typing import Any

from .guard import quietly


def capturing() -> bool:
    """Whether this thread's stream is being captured; asking does not initialise CUDA."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    return bool(quietly(torch.cuda.is_current_stream_capturing))
