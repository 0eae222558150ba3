"""The board that a name on the command line or in a table means."""

import re
from difflib import get_close_matches
from typing import Any

from diagnose.errors import WrongUsage
from diagnose.hardware.table import Gpu, table

_SEEN_OVER_MARKETED = 1.03  # memory that a board reports, over its figure in 10^9 bytes


def gpu_named(name: str) -> Gpu:
    """Return the board of that key or name; if several contain every word of it, the first in the table.

    "H100" is the 80 GB SXM board, "H100-80GB (as printed)" too: words in brackets are ignored.

    Raises:
        UserError: no board matches; the message has the nearest.
    """
    exact = [gpu for gpu in table() if name.casefold() in {gpu.key.casefold(), *map(str.casefold, gpu.names)}]
    if exact:
        return exact[0]
    words = re.findall(r"[a-z0-9]+", re.sub(r"\(.*?\)", "", name.casefold()))
    for gpu in table():
        if words and set(words) <= set(re.findall(r"[a-z0-9]+", " ".join((gpu.key, *gpu.names)).casefold())):
            return gpu
    keys = {gpu.key.casefold(): gpu.key for gpu in table()}
    near = [keys[close] for close in get_close_matches(name.casefold(), keys, n=3, cutoff=0.3)]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise WrongUsage("no such GPU is known", where=name, do=f"{hint}`diagnose hardware` lists them all")


def properties_of(gpu: Gpu) -> dict[str, Any]:
    """The device properties that a trace of such a board has."""
    name = "" if not gpu.names else gpu.names[0]
    properties: dict[str, Any] = {"id": 0, "name": name, "totalGlobalMem": gpu.memory_gb[0] * _SEEN_OVER_MARKETED * 1e9}
    return properties | ({"numSms": gpu.sms} if gpu.sms_verified and gpu.sms else {})
