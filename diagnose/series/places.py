"""Locate the series of a run: its folders and logs, by their names."""

import os
import re
from pathlib import Path

from diagnose.errors import pass_over
from diagnose.probes.protocol import RECORD, STEP_LOG, WINDOW_FOLDER, rank_in

CHECKPOINT = "checkpoint-"  # begins the names of the folders of checkpoints, each with a trainer's state
STATE = "trainer_state.json"
LOGS = (".csv", ".tsv", ".jsonl")
CAPTURE_NAME = re.compile(RECORD.replace(".", r"\.").format(r"(\d{1,9})") + r"\Z")
_WINDOW_NAME = re.compile(WINDOW_FOLDER.format(r"\d{1,15}") + r"(-\d{1,3})?", re.ASCII)


def is_window(name: object) -> bool:
    """Whether a folder of that name may be that of a window."""
    return isinstance(name, str) and _WINDOW_NAME.fullmatch(name) is not None


def step_logs(folder: Path) -> list[Path]:
    """The step logs in the folder of an armed run, by rank; none if it is another folder."""
    try:
        found = {rank_in(path.name, STEP_LOG): path for path in folder.iterdir() if path.is_file()}
    except OSError as error:
        pass_over(error)
        return []
    return [path for rank, path in sorted((rank, path) for rank, path in found.items() if rank is not None)]


def may_hold_series(path: Path) -> bool:
    """Whether any file next to a trace, or in the folder of traces, is named like a source of step times."""
    folder = path if path.is_dir() else path.parent
    try:
        names = os.listdir(folder)
    except OSError:
        return True
    return is_window(folder.name) or any(holds_series(name) for name in names)


def holds_series(name: str) -> bool:
    """Whether a file is called as what holds step times is."""
    named = name == STATE or name.startswith(CHECKPOINT) or Path(name).suffix.lower() in LOGS
    return named or CAPTURE_NAME.fullmatch(name) is not None or rank_in(name, STEP_LOG) is not None
