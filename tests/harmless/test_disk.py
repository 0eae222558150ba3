"""The uncompressed trace lies on the disk of the run, whatever /tmp is."""

import os
from pathlib import Path

import pytest
from harmless.test_export_fails import Profiler

from diagnose.probes.bundle.disk import file_system, free_bytes, in_memory
from diagnose.probes.recording.trace_file import write_trace

MOUNTS = r"""22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /tmp rw,nosuid shared:9 - tmpfs tmpfs rw
31 30 0:27 / /tmp/on\040disk rw - xfs /dev/vdb rw
40 22 0:50 / /data rw - tmpfs tmpfs rw
41 22 0:51 / /data rw - nfs4 server:/data rw
"""


@pytest.mark.parametrize(
    ("folder", "kind", "memory"),
    [
        ("/home/me/runs", "ext4", False),
        ("/tmp/run", "tmpfs", True),
        ("/tmpfiles", "ext4", False),
        ("/tmp/on disk/run", "xfs", False),
        ("/data/run", "nfs4", False),
    ],
)
def test_the_innermost_mount_tells_what_a_folder_is_on(folder: str, kind: str, memory: bool, tmp_path: Path) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)

    assert (file_system(folder, mounts), in_memory(folder, mounts)) == (kind, memory)


def test_without_a_list_of_mounts_nothing_is_known_to_be_memory(tmp_path: Path) -> None:
    assert (file_system("/tmp", tmp_path / "none"), in_memory("/tmp", tmp_path / "none")) == ("", False)


def test_room_is_that_of_the_folder_that_is_there(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "not" / "yet") == os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize


def test_the_exported_file_is_on_the_disk_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of the run is the disk, told by its device; the exporter follows a link to a file there."""
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    devices = []
    write_trace(Profiler(then=lambda path: devices.append(os.stat(path).st_dev)), tmp_path / "rank0.json.gz")

    assert devices == [os.stat(tmp_path).st_dev]
    assert os.stat("/dev/shm").st_dev not in devices


def test_a_trace_that_would_lie_in_memory_is_not_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No link can be made, and only the temporary files have a folder whose name the exporter takes."""
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    folder.mkdir()
    monkeypatch.setattr(os, "symlink", lambda *_: (_ for _ in ()).throw(OSError("no links")))
    monkeypatch.setattr("diagnose.probes.recording.trace_file.in_memory", lambda _: True)
    with pytest.raises(OSError, match="would lie in memory"):
        write_trace(Profiler(), folder / "rank0.json.gz")

    assert os.listdir(folder) == []
