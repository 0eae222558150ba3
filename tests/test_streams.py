"""Input that is no file: read to a temporary file, refused, or passed over, and never waited for in vain."""

import contextlib
import gzip
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kineto import Trace as Job

from diagnose.analysis import analyze
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.series.sources import read_series
from diagnose.trace import find_run, on_this_machine, read, streams

pytestmark = pytest.mark.long

COMMAND = [sys.executable, "-m", "diagnose", "analyze"]
PATIENCE_S = 180  # in which every command here has to end, whatever it is given


@pytest.fixture
def text(tmp_path: Path) -> bytes:
    """A small trace."""
    job = Job()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
    return job.write(tmp_path / "files" / "rank0.json").read_bytes()


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe without a writer."""
    os.mkfifo(tmp_path / "pipe.json")
    return tmp_path / "pipe.json"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files go to a folder of the test, and nothing is left in it."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    assert [*(tmp_path / "temporary").iterdir()] == []


def written_to(pipe: Path, *pieces: bytes) -> threading.Thread:
    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            for piece in pieces:
                file.write(piece)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    return writer


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input(name: str, pack: Callable[[bytes], bytes], text: bytes) -> None:
    done = subprocess.run([*COMMAND, name, "--json"], input=pack(text), capture_output=True, timeout=PATIENCE_S)
    found = json.loads(done.stdout)
    assert (done.returncode, found["trace"]["files"]) == (0, [name.replace("-", "standard input")])
    assert found["trace"]["bytes"] == len(text)


def test_standard_input_from_a_file(text: bytes, tmp_path: Path) -> None:
    with (tmp_path / "files" / "rank0.json").open("rb") as file:
        done = subprocess.run([*COMMAND, "-", "-q"], stdin=file, capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0


def test_process_substitution(text: bytes, tmp_path: Path) -> None:
    command = f'exec "$0" -m diagnose analyze <(cat {tmp_path}/files/rank0.json) -q'
    done = subprocess.run(["bash", "-c", command, sys.executable], capture_output=True, timeout=PATIENCE_S)
    assert done.returncode == 0


def test_a_pipe_is_read_as_the_file_would_be(text: bytes, pipe: Path, tmp_path: Path) -> None:
    writer = written_to(pipe, text[:1000], text[1000:])
    found = analyze(pipe)
    writer.join()
    assert found.ledger == analyze(tmp_path / "files" / "rank0.json").ledger
    assert found.trace.files == (str(pipe),)


def test_a_pipe_without_a_writer(pipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "NOBODY_WRITES_S", 0.2)
    with pytest.raises(UserError, match="nobody writes to this pipe"):
        analyze(pipe)


def test_a_writer_that_stops_writing(pipe: Path, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "NOTHING_COMES_S", 0.5)
    opened = threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(text[:1000])
            opened.wait(PATIENCE_S)

    threading.Thread(target=write, daemon=True).start()
    with pytest.raises(UserError, match="nothing came for"):
        analyze(pipe)
    opened.set()


def test_what_begins_as_no_trace_is_not_waited_for(pipe: Path) -> None:
    """Such as the output of `yes`, which never ends."""
    ended = threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"y\n" * 1000)
            except BrokenPipeError:
                ended.set()

    threading.Thread(target=write, daemon=True).start()
    with pytest.raises(UserError, match="no JSON"):
        analyze(pipe)
    assert ended.wait(PATIENCE_S)


def test_no_more_is_copied_than_there_is_room_for(pipe: Path, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_LEFT_FREE_BYTES", 1 << 62)
    written_to(pipe, text)
    with pytest.raises(UserError, match="no room to copy"):
        analyze(pipe)


def test_no_more_is_copied_than_a_trace_has(pipe: Path, text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LARGEST_BYTES", 100)
    written_to(pipe, text)
    with pytest.raises(UserError, match="more than 0 GiB came"):
        analyze(pipe)


@pytest.mark.parametrize("given", [subprocess.DEVNULL, subprocess.PIPE])
def test_empty_standard_input(given: int) -> None:
    done = subprocess.run([*COMMAND, "-"], stdin=given, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 3
    assert "standard input" in done.stderr


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_refused(device: str) -> None:
    with pytest.raises(UserError, match="it is a device"):
        analyze(device)


def test_pipes_and_devices_in_a_folder_are_passed_over_and_told_of(text: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    for name in ("pipe.json", "capture-rank0.json", "capture.json", "trainer_state.json", "steps.csv", "x.jsonl"):
        os.mkfifo(folder / name)
    (folder / "zero.json").symlink_to("/dev/zero")
    done = CliRunner().invoke(main, ["analyze", str(folder)])
    assert done.exit_code == 0
    said = " ".join(done.stdout.split())
    assert "pipe.json, which is no file" in said
    assert "zero.json, which is no file" in said
    found = analyze(folder)
    assert found.trace.files == (str(folder / "rank0.json"),)
    assert str(folder / "pipe.json") in found.trace.skipped
    assert analyze(folder / "rank0.json").trace.skipped == ()


NAMED_LIKE = ("rank0.steps", "rank1.steps", "rank9.json", "capture-rank0.json", "nccl_trace_rank_0", "a.pickle")


def _socket(at: Path) -> None:
    with contextlib.chdir(at.parent), socket.socket(socket.AF_UNIX) as made:  # whose paths are short
        made.bind(at.name)


@pytest.mark.parametrize(
    "make", [os.mkfifo, _socket, lambda at: at.symlink_to("/dev/zero")], ids=["pipe", "socket", "device"]
)
@pytest.mark.parametrize("command", ["analyze", "series", "fleet", "scaling", "hang", "memory"])
def test_what_is_no_file_changes_no_answer_about_a_folder(
    command: str, make: Callable[[Path], object], text: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    alone = CliRunner().invoke(main, [command, str(folder)])
    for name in (*NAMED_LIKE, "steps.csv", "train.log", "trainer_state.json"):
        make(folder / name)

    beside = CliRunner().invoke(main, [command, str(folder)])

    assert (beside.exit_code, "pipe" in beside.stderr) == (alone.exit_code, False)


def test_what_is_no_file_is_no_rule_and_no_part_of_torch_trace(text: bytes, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "own-rule.toml")
    os.mkfifo(tmp_path / "a.log")

    rules = CliRunner().invoke(main, ["rules", "--rules", str(tmp_path)])
    traced = CliRunner().invoke(main, ["analyze", str(tmp_path / "files"), "--torch-trace", str(tmp_path)])

    assert (rules.exit_code, "no rule files (*.toml) in this folder" in rules.stderr) == (2, True)
    assert (traced.exit_code, "no compilation in TORCH_TRACE" in traced.stderr) == (3, True)


@pytest.mark.parametrize("name", ["log.csv", "log.jsonl", "trainer_state.json"])
def test_a_log_that_is_a_pipe_is_refused(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(UserError, match="it is a pipe, not a file"):
        read_series(tmp_path / name)


def test_the_reader_opens_no_pipe(pipe: Path) -> None:
    with pytest.raises(UserError, match="it is a pipe, not a file"):
        read(pipe)


@pytest.mark.parametrize("junk", ["[]", "{}", "null", '{"traceEvents": []}', '[{"a": 1}]', ""])
def test_a_junk_file_loses_no_neighbour(junk: str, text: bytes, tmp_path: Path) -> None:
    (tmp_path / "files" / "rank1.json").write_text(junk)
    assert [file.path.name for file in find_run(tmp_path / "files").files] == ["rank0.json"]


JUNK = ("[]", "{}", "null", "1", '"x"', "[[]]", '[{"a": 1}]', "true", "[], []")


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("junk", JUNK)
def test_junk_among_the_events_loses_no_neighbour(junk: str, indent: int | None, text: bytes, tmp_path: Path) -> None:
    document = json.loads(text)
    events, whole = document["traceEvents"], read(tmp_path / "files" / "rank0.json")
    for at in (0, 3, len(events)):
        document["traceEvents"] = [*events[:at], "JUNK", *events[at:]]
        path = tmp_path / "junk.json"
        path.write_text(json.dumps(document, indent=indent).replace('"JUNK"', junk))
        found = read(path)
        assert found.ts.tolist() == whole.ts.tolist()
        assert found.metadata == whole.metadata


def test_a_file_is_read_where_it_lies(text: bytes, tmp_path: Path) -> None:
    with on_this_machine(tmp_path / "files" / "rank0.json") as place:
        assert place.path == tmp_path / "files" / "rank0.json"
