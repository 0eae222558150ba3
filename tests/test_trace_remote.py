"""Traces at a URL: copied here, analysed as if they had been here, and called by their own names."""

import http.server
import importlib
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from trace_files import small_job

from diagnose.analysis import analyze
from diagnose.cli import main
from diagnose.errors import UserError
from diagnose.trace import displayed, on_this_machine
from diagnose.trace.remote import is_remote

fsspec = pytest.importorskip("fsspec")
TEXT = json.dumps(small_job().json())


@pytest.fixture
def bucket() -> Iterator[Any]:
    """Puts files into fsspec's memory, each by name: `bucket({"a/rank0.json": text})`."""
    memory = fsspec.filesystem("memory")
    memory.store.clear()
    yield lambda files: [memory.pipe(f"/{name}", content.encode()) for name, content in files.items()]
    memory.store.clear()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which a web server lists it."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    folder = tmp_path / "served"
    folder.mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def rank(number: int) -> str:
    return json.dumps(small_job().json() | {"distributedInfo": {"rank": number, "world_size": 2}})


def test_a_file(bucket: Any, tmp_path: Path) -> None:
    bucket({"run/trace.json": TEXT})
    (tmp_path / "trace.json").write_text(TEXT)
    there, here = analyze("memory://run/trace.json"), analyze(tmp_path / "trace.json")
    assert (there.verdict, there.ledger, there.steps) == (here.verdict, here.ledger, here.steps)
    assert there.trace.files == ("memory://run/trace.json",)


@pytest.mark.parametrize("url", ["memory://run", "memory://run/"])
def test_a_folder_of_ranks(url: str, bucket: Any) -> None:
    bucket({"run/rank0.json": rank(0), "run/rank1.json": rank(1), "run/notes.txt": "x", "run/old/rank0.json": rank(0)})
    assert analyze(url).trace.files == ("memory://run/rank0.json", "memory://run/rank1.json")


def test_traces_below_the_folder_and_the_record_beside_them(bucket: Any) -> None:
    bucket({"run/traces/rank0.json": rank(0), "run/traces/capture-rank0.json": '{"seed": 1}'})
    with on_this_machine("memory://run") as place:
        assert sorted(file.name for file in place.path.rglob("*.json")) == ["capture-rank0.json", "rank0.json"]


def test_nothing_is_left_behind(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    bucket({"run/rank0.json": TEXT, "bad/trace.json": "no trace"})
    analyze("memory://run")
    with pytest.raises(UserError):
        analyze("memory://bad/trace.json")
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_as_the_user_does(bucket: Any) -> None:
    bucket({"run/trace.json": "no trace"})
    with pytest.raises(UserError) as error:
        analyze("memory://run/trace.json")
    assert error.value.message.startswith("not a PyTorch profiler trace: memory://run/trace.json")


def test_nothing_there(bucket: Any) -> None:
    with pytest.raises(UserError, match="no such file or folder: memory://missing/trace"):
        analyze("memory://missing/trace.json")


def test_a_folder_without_traces(bucket: Any) -> None:
    bucket({"run/notes.txt": "x"})
    with pytest.raises(UserError, match="no traces in the folder: memory://run"):
        analyze("memory://run")


@pytest.mark.parametrize("name", ["run/../../evil.json", "run/..\\evil.json", "run/%2e%2e/%2e%2e/evil.json"])
def test_a_name_that_leads_out_of_the_folder_is_passed_over(name: str, bucket: Any, tmp_path: Path) -> None:
    bucket({"run/rank0.json": TEXT})
    fsspec.filesystem("memory").store[f"/{name}"] = fsspec.filesystem("memory").store["/run/rank0.json"]
    with on_this_machine("memory://run") as place:
        assert [file.name for file in place.path.rglob("*")] == ["rank0.json"]
        assert list(place.path.parent.glob("evil*")) == []


def test_a_full_disk(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket({"run/rank0.json": TEXT})
    monkeypatch.setattr("diagnose.trace.remote._LEFT_FREE_BYTES", 1 << 62)
    with pytest.raises(UserError, match="no room to copy"):
        analyze("memory://run")


@pytest.mark.parametrize(
    ("url", "module", "package"),
    [
        ("s3://bucket/run", "s3fs", "s3fs"),
        ("gs://bucket/run", "gcsfs", "gcsfs"),
        ("hf://datasets/me/run", "huggingface_hub", "huggingface_hub"),
        ("ssh://node/run", "paramiko", "paramiko"),
        ("https://host/trace.json", "aiohttp", "aiohttp"),
        ("s3://bucket/run", "fsspec", "fsspec"),
    ],
)
def test_a_missing_driver(url: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for loaded in [name for name in sys.modules if name.startswith("fsspec.implementations.")]:
        monkeypatch.delitem(sys.modules, loaded)
    registry = importlib.import_module("fsspec.registry")
    monkeypatch.setitem(sys.modules, module, None)
    for protocol in ("s3", "gs", "hf", "ssh", "https"):
        monkeypatch.delitem(registry._registry, protocol, raising=False)
    with pytest.raises(UserError, match=rf"why: {package} is not installed") as error:
        analyze(url)
    assert 'pip install ".[remote]"' in error.value.message
    assert error.value.exit_code == 3


def test_an_unknown_protocol() -> None:
    with pytest.raises(UserError, match=r"cannot read from there: nowhere://x\n  why: .*nowhere"):
        analyze("nowhere://x")


def test_a_driver_that_fails(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket({"run/trace.json": TEXT})
    monkeypatch.setattr(type(fsspec.filesystem("memory")), "isdir", lambda *_: 1 / 0)
    with pytest.raises(UserError, match="why: ZeroDivisionError: division by zero"):
        analyze("memory://run/trace.json")


def test_the_command_takes_a_url(bucket: Any) -> None:
    bucket({"run/trace.json": TEXT})
    done = CliRunner().invoke(main, ["analyze", "memory://run/trace.json", "--json"])
    assert (done.exit_code, json.loads(done.stdout)["trace"]["files"]) == (0, ["memory://run/trace.json"])


def test_a_file_of_a_web_server(served: tuple[Path, str]) -> None:
    pytest.importorskip("aiohttp")
    folder, address = served
    (folder / "trace.json").write_text(TEXT)
    assert analyze(f"{address}/trace.json?signature=secret").trace.files == (f"{address}/trace.json",)
    with pytest.raises(UserError, match="no such file or folder") as error:
        analyze(f"{address}/missing.json?signature=secret")
    assert "secret" not in error.value.message


def test_a_folder_of_a_web_server(served: tuple[Path, str]) -> None:
    pytest.importorskip("aiohttp")
    folder, address = served
    for number in (0, 1):
        (folder / f"rank{number}.json").write_text(rank(number))
    assert analyze(f"{address}/").trace.files == (f"{address}/rank0.json", f"{address}/rank1.json")


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(UserError, match="check the address, the network"):
        analyze("http://127.0.0.1:9/trace.json")


def test_a_file_url_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "a trace.json").write_text(TEXT)
    assert analyze(f"file://{tmp_path}/a%20trace.json").trace.files == (str(tmp_path / "a trace.json"),)


@pytest.mark.parametrize("path", ["trace.json", "/a/b", "C:\\a", "C:/a", "a:b", "file:///a", "://", "x/s3://b"])
def test_paths_of_this_machine(path: str) -> None:
    assert not is_remote(path)


def test_secrets_are_not_shown() -> None:
    assert displayed("ssh://me:pass@node/run") == "ssh://me@node/run"
    assert displayed("https://host/t.json?X-Amz-Signature=abc") == "https://host/t.json"
