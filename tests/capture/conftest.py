"""The command under test."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from capture.command_runs import Start


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts `diagnose run ARGS` in an empty folder."""

    def popen(*args: object, env: dict[str, str] | None = None, **options: object) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "diagnose", "run", *map(str, args)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": tmp_path} | options
        return subprocess.Popen(command, env={**os.environ, **(env or {})}, **pipes)  # type: ignore[call-overload]

    return popen
