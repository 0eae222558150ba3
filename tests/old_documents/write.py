"""Writes one of each document that commands read again, as the present version does: `python write.py FOLDER`."""

import gzip
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
TRAIN = ("--", "python", "train.py")
COMMANDS = (
    ("run", "--stop", "--out", "bundle", *TRAIN),
    ("run", "--arm", "--every", "300", "--windows", "1", "--steps", "3", "--out", "armed", *TRAIN),
    ("tune", "--out", "tune", "--runs", "3", "--steps", "4", "--control", "4", *TRAIN),
    ("analyze", "bundle", "--json"),
    ("baseline", "save", "loader", "bundle", "--dir", "baselines"),
    ("ledger", "--export", "promises.json"),
)
NOT_READ_AGAIN = ("tune/tune.html", "tune/tune.lock", "tune/run-*.log", "tune/run-[12]", "train.py", "__pycache__")


def write(folder: Path) -> None:
    """Runs each command in the folder, then takes the names of the machine out of what they wrote."""
    folder.mkdir(parents=True)
    shutil.copy(HERE / "train.py", folder)
    for command in COMMANDS:
        ran = [sys.executable, "-m", "diagnose", *command]
        place = os.environ | {"DIAGNOSE_DATA_DIR": str(folder / "data")}
        done = subprocess.run(ran, cwd=folder, env=place, check=True, stdout=subprocess.PIPE)
        if "--json" in command:
            (folder / "diagnosis.json").write_bytes(done.stdout)
    for pattern in NOT_READ_AGAIN:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        rewrite(path, folder)


def rewrite(path: Path, folder: Path) -> None:
    """Names no place and no host of the machine; compresses what is large."""
    packed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    for named, plain in ((str(folder), "/job"), (sys.prefix, "/venv"), (platform.node(), "node1")):
        text = re.sub(rb"(?<![\w.-])" + re.escape(named.encode()) + rb"(?![\w.-])", plain.encode(), text)
    if packed or len(text) < 40_000:
        path.write_bytes(gzip.compress(text, mtime=0) if packed else text)
    else:
        path.unlink()
        path.with_name(f"{path.name}.packed").write_bytes(gzip.compress(text, mtime=0))


if __name__ == "__main__":
    write(Path(sys.argv[1]).absolute())
