"""The board that a name on the command line or in a table means."""

import re
from difflib import get_close_matches

from diagnose.errors import UserError
from diagnose.hardware import Gpu, table

GPUS_PER_NODE = 8  # of a machine that nobody describes


def fewest_nodes(gpus: int) -> int:
    """Machines of at most eight GPUs that hold as many in equal parts."""
    return next(nodes for nodes in range(1, gpus + 1) if gpus % nodes == 0 and gpus // nodes <= GPUS_PER_NODE)


def gpu_named(name: str) -> Gpu:
    """The board of that key or name; of several that have every word of it, the first of the table.

    "H100" is the 80 GB SXM board, "H100-80GB (as printed)" too: words in brackets say nothing.

    Raises:
        UserError: no board is meant; the message has the nearest.
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
    raise UserError("no such GPU is known", where=name, do=f"{hint}`diagnose hardware` lists them all")
