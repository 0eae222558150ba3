"""A trace that cannot be written leaves no file behind, and the parent says what happened."""

import errno
import gzip
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from capture.scripts import BARE
from harmless.parents import RANK, below, ended, python
from needs import needs

from diagnose.probes.bundle.claim import make_scratch
from diagnose.probes.recording.trace_file import write_trace

Export = Callable[[str], None]


class Profiler:
    """Exports as torch's does: under another name first, then renamed."""

    def __init__(self, text: str = '{"traceEvents": []}', then: Export = lambda path: None) -> None:
        self._text, self._then = text, then

    def export_chrome_trace(self, path: str) -> None:
        with open(f"{path}.tmp", "w") as file:
            file.write(self._text)
        os.rename(f"{path}.tmp", path)
        self._then(path)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The bundle and the folder for temporary files, both empty."""
    bundle, temporary = tmp_path / "bundle", tmp_path / "temporary"
    bundle.mkdir()
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    return bundle, temporary


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def test_the_trace_is_there_and_nothing_else(folders: tuple[Path, Path]) -> None:
    bundle, temporary = folders
    write_trace(Profiler(), bundle / "rank0.json.gz")

    assert gzip.decompress((bundle / "rank0.json.gz").read_bytes()) == b'{"traceEvents": []}'
    assert left(bundle) == ["rank0.json.gz"]
    assert list(temporary.iterdir()) == []


def test_an_exporter_that_writes_directly_or_replaces_the_file(folders: tuple[Path, Path]) -> None:
    def replaced(path: str) -> None:
        os.unlink(path)
        Path(path).write_text("[]")

    write_trace(Profiler(then=replaced), folders[0] / "rank0.json.gz")

    assert gzip.decompress((folders[0] / "rank0.json.gz").read_bytes()) == b"[]"


def fails(path: str) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize("claimed", [True, False])
@pytest.mark.parametrize("profiler", [Profiler('{"traceEvents": [{"na'), Profiler(""), Profiler(then=fails)])
def test_an_export_that_fails_leaves_nothing(profiler: Profiler, claimed: bool, folders: tuple[Path, Path]) -> None:
    bundle, temporary = folders
    if claimed:
        make_scratch(bundle, "token")
    with pytest.raises((OSError, RuntimeError)):
        write_trace(profiler, bundle / "rank0.json.gz")

    assert left(bundle) == ([".diagnose/owner"] if claimed else [])
    assert list(temporary.iterdir()) == []


def test_while_it_is_exported_the_raw_file_has_no_name(folders: tuple[Path, Path]) -> None:
    """So its space is free as soon as the process is gone, however it ends."""
    bundle, temporary = folders
    make_scratch(bundle, "token")
    seen: list[list[str]] = []

    def look(path: str) -> None:
        seen.append([*left(bundle), *left(temporary)])
        assert Path(path).is_symlink()

    write_trace(Profiler(then=look), bundle / "rank0.json.gz")

    [[owner, raw]] = seen
    assert owner == ".diagnose/owner"
    assert raw.startswith(".diagnose/raw-")
    assert left(bundle) == [".diagnose/owner", "rank0.json.gz"]


@pytest.mark.parametrize("takes_links", [True, False])
def test_without_a_folder_for_temporary_files(
    takes_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*args: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "not there"))
    if not takes_links:
        monkeypatch.setattr(os, "symlink", no_links)
    write_trace(Profiler(), tmp_path / "rank0.json.gz")

    assert os.listdir(tmp_path) == ["rank0.json.gz"]


FULL = """
import resource, signal
def during(number):
    if number == 7:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, resource.RLIM_INFINITY))
    if number == 25:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
AFTERWARDS = "loop()\nprint('trained', flush=True)\nraise SystemExit(4)\n"


def trained(tmp_path: Path, during: str) -> tuple["subprocess.CompletedProcess[str]", Path]:
    """A job whose window is that of steps 6 to 9, with a folder for temporary files of its own."""
    torchless = BARE.replace("torch_hooks.install()\n", "")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    command = python(tmp_path, torchless + during + AFTERWARDS)
    options = ("--out", "b", "--at-step", "6", "--no-report")
    done = ended(below([*command, "unused"], *options), tmp_path, env={**os.environ, "TMPDIR": str(temporary)})
    return done, temporary


@pytest.mark.parametrize(
    ("size", "says"),
    [
        (2000, "the exported trace is cut"),
        pytest.param(0, "rank 0 ended inside the window", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_is_said_and_leaves_nothing(size: int, says: str, tmp_path: Path) -> None:
    """A limit of the size of files stands for the disk: writes fail, the exporter does not tell."""
    needs("torch")
    done, temporary = trained(tmp_path, FULL.format(bytes=size))

    assert (done.returncode, done.stdout) == (4, "trained\n"), done.stderr
    [nothing] = [line for line in done.stderr.splitlines() if "nothing captured" in line]
    assert says in nothing
    assert "no optimizer step" not in done.stderr
    assert list(temporary.glob("*diagnose*")) == []
    assert set(left(tmp_path / "b") if (tmp_path / "b").exists() else []) <= {
        "rank0.done",
        "capture-rank0.json",
        "run-rank0.json",
    }


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_a_rank_killed_while_it_exports_leaves_nothing(number: int, tmp_path: Path) -> None:
    needs("torch")
    during = f"""
import os, torch.profiler
export = torch.profiler.profile.export_chrome_trace
def killed(self, path):
    export(self, path)
    os.kill(os.getpid(), {int(number)})
    os._exit(9)
torch.profiler.profile.export_chrome_trace = killed
"""
    done, temporary = trained(tmp_path, during)

    assert done.returncode == 128 + number
    assert "nothing captured: rank 0 ended inside the window" in done.stderr
    assert list(temporary.glob("*diagnose*")) == []
    assert not (tmp_path / "b").exists()


def test_what_a_rank_says_went_wrong_is_what_the_parent_says(tmp_path: Path) -> None:
    body = RANK + "write(0, trace=False, error='capture stopped: OSError: No space left on device')"
    done = ended(below(python(tmp_path, body), "--out", "b"), tmp_path)

    assert done.stderr == "diagnose: nothing captured: capture stopped: OSError: No space left on device\n"


def test_a_marker_that_cannot_be_written_still_says_why(tmp_path: Path) -> None:
    """The bytes of the claim are there since the window began."""
    body = """
from diagnose.probes.bundle import rank_files
bundle = rank_files.RankFiles(given["out"], 0, 1)
def full(*args): raise OSError(28, "No space left on device")
rank_files._write = full
try:
    bundle.finish(None)
except OSError:
    print("said")
"""
    done = ended(below(python(tmp_path, RANK + body), "--out", "b"), tmp_path)

    assert done.stdout == "said\n"
    assert done.stderr == (
        "diagnose: nothing captured: rank 0 ended inside the window, before its trace was written: "
        "the bundle cannot be written: No space left on device\n"
    )
