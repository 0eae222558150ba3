"""Compiled code under the sanitizers of addresses and of undefined behaviour."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-std=c11", "-fPIC", "-shared")


def sanitized_tries(
    source: Path, script: Path, tries: int, folder: Path, *options: str
) -> subprocess.CompletedProcess[str]:
    """As many tries of a script, which takes `--module`, with that source built under the sanitizers in a folder."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("needs gcc")
    module, include = folder / f"_{source.stem}.so", f"-I{sysconfig.get_paths()['include']}"
    build = [gcc, *SANITIZED, *options, include, str(source), "-o", str(module)]
    if subprocess.run(build, capture_output=True).returncode:
        pytest.skip("needs Python's headers, and gcc's sanitizers")
    asked = subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    env = os.environ | {"LD_PRELOAD": asked.stdout.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    env["PYTHONPATH"] = str(Path(__file__).parent)  # where PYTHONSAFEPATH leaves out the folder of a script
    command = [sys.executable, str(script), str(tries), "--module", str(module)]
    return subprocess.run(command, capture_output=True, text=True, env=env)
