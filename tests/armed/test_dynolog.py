"""`diagnose trigger --dynolog`: the request as its daemon reads it, its answers, and what cannot be asked.

The daemon is in its own project: a server of the test's speaks its protocol here.
"""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main

LENGTH = struct.Struct("=i")


@contextmanager
def daemon(answer: bytes, writes: Path | None = None) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Where one request is answered, and the requests."""
    asked: list[dict[str, Any]] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                (length,) = LENGTH.unpack(connection.recv(LENGTH.size))
                asked.append(json.loads(connection.recv(length)))
                if writes is not None:
                    writes.write_text("{}")
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", asked
        thread.join(10)


def said(told: object) -> bytes:
    content = json.dumps(told).encode()
    return LENGTH.pack(len(content)) + content


def trigger(*words: object) -> Result:
    return CliRunner().invoke(main, ["trigger", *map(str, words)])


def test_each_process_is_asked_for_the_steps_and_its_trace_is_waited_for(tmp_path: Path) -> None:
    folder, pid = tmp_path / "run", os.getpid()
    with daemon(said({"activityProfilersTriggered": [pid]}), folder / f"trace_{pid}.json") as (host, asked):
        done = trigger(folder, "--dynolog", "--host", host, "--steps", 5)

    assert (done.exit_code, done.stdout) == (0, f"1 trace in {folder}: diagnose analyze {folder}\n")
    (request,) = asked
    config = dict(line.split("=") for line in request.pop("config").splitlines())
    assert request == {"fn": "setKinetOnDemandRequest", "job_id": 0, "pids": [0], "process_limit": 1024}
    assert config["ACTIVITIES_LOG_FILE"] == f"{folder}/trace.json"
    assert config["ACTIVITIES_ITERATIONS"] == "5"


def test_a_process_that_listens_is_asked_alone_and_one_that_does_not_is_refused_before(tmp_path: Path) -> None:
    waits = [sys.executable, "-c", "input()"]
    plain = {name: value for name, value in os.environ.items() if name != "KINETO_USE_DAEMON"}
    for environment, refused in ((plain, True), (plain | {"KINETO_USE_DAEMON": "1"}, False)):
        with subprocess.Popen(waits, env=environment, stdin=subprocess.PIPE) as process:
            told = said({"activityProfilersTriggered": [] if refused else [process.pid]})
            if refused:
                done = trigger(tmp_path / "deaf", "--dynolog", "--host", "127.0.0.1:1", "--pid", process.pid)
                assert "the process does not listen" in done.stderr
                assert "KINETO_USE_DAEMON=1" in done.stderr
                assert not (tmp_path / "deaf").exists()
            else:
                with daemon(told) as (host, asked):
                    done = trigger(tmp_path / "r", "--dynolog", "--host", host, "--pid", process.pid, "--wait", 0)
                assert asked[0]["pids"] == [process.pid]
                assert "0 have written their trace" in done.stderr
            process.communicate(b"\n")


def test_without_a_daemon_it_says_what_is_needed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host = f"127.0.0.1:{server.getsockname()[1]}"
    done = trigger(tmp_path / "run", "--dynolog", "--host", host)

    assert done.exit_code != 0
    assert f"no dynolog answers: {host}" in done.stderr
    assert "dynolog --enable_ipc_monitor" in done.stderr
    assert "diagnose run --arm, which needs none" in done.stderr


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (said({"activityProfilersTriggered": [], "activityProfilersBusy": 2}), "2 are being recorded already"),
        (said({"activityProfilersTriggered": []}), "knows no such process"),
        (said({"activityProfilersTriggered": "x"}), "knows no such process"),
        (said([]), "knows no such process"),
        (LENGTH.pack(-5), "an impossible length"),
        (LENGTH.pack(1 << 30), "an impossible length"),
        (LENGTH.pack(100) + b"{", "it ended the connection"),
        (b"", "it ended the connection"),
    ],
)
def test_an_answer_without_a_process_is_an_error_with_its_reason(tmp_path: Path, answer: bytes, why: str) -> None:
    with daemon(answer) as (host, _):
        done = trigger(tmp_path / "run", "--dynolog", "--host", host)

    assert done.exit_code != 0
    assert why in done.stderr
    assert "Traceback" not in done.output


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "trace_1.json").write_text("mine")
    done = trigger(tmp_path, "--dynolog", "--host", "127.0.0.1:1")

    assert "the folder is not empty" in done.stderr
