"""`diagnose run` as the tests start it, and scripts that write a capture by themselves."""

import subprocess
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 300  # longer than any busy machine needs
TRACE = Path(__file__).parents[2] / "sample_traces" / "cpu-slow-loader.json.gz"
WRITES = f"""
import json, os, shutil
given = json.loads(os.environ["PYTHON_DIAGNOSE"])
out, token = given["out"], given["token"]
def write(rank, world_size=1, out=out):
    os.makedirs(out, exist_ok=True)
    trace = f"rank{{rank}}.json.gz"
    shutil.copy({str(TRACE)!r}, os.path.join(out, trace))
    marker = {{"rank": rank, "world_size": world_size, "trace": trace, "capture": "", "token": token}}
    with open(os.path.join(out, "partial"), "w") as file:
        json.dump(marker, file)
    os.replace(os.path.join(out, "partial"), os.path.join(out, f"rank{{rank}}.done"))
"""
Start = Callable[..., "subprocess.Popen[str]"]


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=PATIENCE_S)
    return process.returncode, out, err


def script(tmp_path: Path, body: str, name: str = "train.py") -> str:
    (tmp_path / name).write_text(textwrap.dedent(body))
    return name


def bundles(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "diagnose-runs").glob("*"))


def until(found: Callable[[], object], process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not found() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found()
