"""Torch's flight recorder, armed so that a job that hangs leaves its dumps in the bundle: by unset variables alone.

The recorder keeps the last calls of collectives in memory, and the watchdog of NCCL writes them when a call times out.
Torch reads these variables when the first group is made: buffer and place have other names before torch 2.9, which the
later versions still know, with a warning. Their default is a buffer of 2,000 calls and a dump in the user's cache
folder; before torch 2.6 the recorder is off.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from ..config import Config, from_environment, rank_and_world_size
from ..protocol import HANG_DUMP

_CALLS = "2000"
_SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_WHEN = "TORCH_NCCL_DUMP_ON_TIMEOUT"
_RENAMED_IN = (2, 9)


def arm() -> None:
    """Set the unset variables of this process, if it is a rank of several and the run does not opt out."""
    config = from_environment()
    if config is not None and rank_and_world_size()[1] > 1:
        os.environ.update(variables(config, _torch_version(), os.environ))


def variables(config: Config, torch_version: tuple[int, ...], environment: Mapping[str, str]) -> dict[str, str]:
    """Variables to set; none that the job has set under any of its names, and none if the recorder is off."""
    if not config.flight_recorder or environment.get(_SIZES[0], environment.get(_SIZES[1])) == "0":
        return {}
    new = torch_version >= _RENAMED_IN
    wanted = {(_WHEN,): "1", _SIZES: _CALLS, _FILES: os.path.join(config.out, HANG_DUMP.format(""))}
    return {
        names[0] if new else names[-1]: text
        for names, text in wanted.items()
        if not any(name in environment for name in names)
    }


def _torch_version() -> tuple[int, ...]:
    """Version of the job's torch; () if it states none."""
    stated = str(getattr(sys.modules.get("torch"), "__version__", "")).split(".")[:2]
    return tuple(int(part) for part in stated if part.isdecimal())
