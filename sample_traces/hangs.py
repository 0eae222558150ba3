"""Real dumps of torch's flight recorder: a job on gloo that hangs by a fault of one rank, on CPU.

The folders of this machine are taken out of the names of files; nothing else is changed.
"""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FAULTS = ("missing-rank", "other-order", "other-size", "desynchronised")
MADE = tuple(f"dumps/hang-{fault}" for fault in FAULTS)
RANKS = 4
_FOLDERS = {
    f"{HERE}/": "",
    f"{sysconfig.get_path('purelib')}/": "site-packages/",
    f"{os.path.dirname(os.__file__)}/": "lib/",
}


def make(name: str, into: Path) -> list[Path]:
    """Write the dumps of one job into `into`/`name`, one for each rank that lives to write it.

    Gloo ends the neighbour of a rank that sends more than it expects.
    """
    folder = into / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    files = [folder / f"trace_rank_{rank}" for rank in range(RANKS)]
    fault = name.removeprefix("dumps/hang-")
    port = _free_port()
    script = str(HERE / "hanging_job.py")
    commands = [
        [sys.executable, script, fault, str(rank), str(RANKS), str(port), str(file)] for rank, file in enumerate(files)
    ]
    ranks = [subprocess.Popen(command, stderr=subprocess.DEVNULL) for command in commands]
    for rank in ranks:
        rank.wait(timeout=120)
    left = [file for file in files if file.exists()]
    for file in left:
        file.write_bytes(pickle.dumps(_without_folders(pickle.loads(file.read_bytes())), protocol=2))
    return left


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def _without_folders(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_folders(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_without_folders(entry) for entry in value)
    if isinstance(value, str):
        for folder, short in _FOLDERS.items():
            value = value.replace(folder, short)
    return value
