"""Where the series of a run are: its folders and logs, by their names."""

import re
from pathlib import Path

from diagnose.errors import pass_over
from diagnose.probes.protocol import STEP_LOG, WINDOW_FOLDER, rank_in

CHECKPOINT = "checkpoint-"  # begins the names of the folders of checkpoints, each with a trainer's state
_WINDOW_NAME = re.compile(WINDOW_FOLDER.format(r"\d{1,15}") + r"(-\d{1,3})?", re.ASCII)


def is_window(name: object) -> bool:
    """Whether a folder of that name may be that of a window."""
    return isinstance(name, str) and _WINDOW_NAME.fullmatch(name) is not None


def step_logs(folder: Path) -> list[Path]:
    """The step logs in the folder of an armed run, by rank; none where it is another folder."""
    try:
        found = {rank_in(path.name, STEP_LOG): path for path in folder.iterdir()}
    except OSError as error:
        pass_over(error)
        return []
    return [path for rank, path in sorted((rank, path) for rank, path in found.items() if rank is not None)]
