"""`diagnose doctor`: what a capture can see, and what nobody could look at."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from diagnose import __version__
from diagnose.cli import main
from diagnose.commands.doctor import checks
from diagnose.commands.doctor import checks as doctor
from diagnose.commands.doctor.answer import Check
from diagnose.commands.doctor.checks import GIB


def test_it_reports_on_this_machine() -> None:
    command = [sys.executable, "-m", "diagnose", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    labels = [line[:12].strip() for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{__version__}, Python" in done.stdout
    assert "\nhook        ok" in done.stdout
    assert "ms for each MB" in " ".join(done.stdout.split())
    assert set(labels) >= {
        "diagnose",
        "hook",
        "torch",
        "GPU events",
        "NVML",
        "network",
        "Nsight",
        "DCGM",
        "disk",
        "capture",
        "launches",
        "reader",
        "versions",
    }


def test_as_json_a_check_is_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = [Check("torch", "ok", "2.9, built for 12.8"), Check("NVML", "unknown", "no NVIDIA driver here")]
    monkeypatch.setattr("diagnose.commands.doctor.command.checks", lambda folder, env: iter(looked_at))

    printed = CliRunner().invoke(main, ["doctor", "--json"]).stdout

    assert json.loads(printed)["checks"] == [
        {"name": "torch", "state": "ok", "says": "2.9, built for 12.8"},
        {"name": "NVML", "state": "unknown", "says": "no NVIDIA driver here"},
    ]


@pytest.mark.parametrize(
    ("said", "states"),
    [
        ({"hooked": True, "torch": "2.9", "devices": ["H100"], "kernels": 3}, "ok ok ok"),
        ({"hooked": True, "torch": "2.9", "devices": ["H100"], "kernels": 0}, "ok ok warn"),
        ({"hooked": True, "torch": "2.9", "devices": ["H100"], "error": "CUPTI"}, "ok ok warn"),
        ({"hooked": True, "torch": "2.9", "devices": []}, "ok ok unknown"),
        ({"hooked": False, "error": "ImportError"}, "warn warn unknown"),
        ({"error": "asking it failed"}, "unknown warn unknown"),
    ],
)
def test_what_torch_says(said: Mapping[str, object], states: str) -> None:
    found = (doctor.hook(said), doctor.torch_found(said), doctor.gpu_events(said))

    assert [check.state for check in found] == states.split()


def test_a_python_that_cannot_be_asked_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/not/there")

    assert doctor.ask_torch(os.environ) == {"error": "asking it failed: FileNotFoundError"}


def test_a_torch_that_prints_and_fails_is_told(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("print('banner'); raise OSError('libcudart')")

    said = doctor.ask_torch({**os.environ, "PYTHONPATH": str(tmp_path)})

    assert said == {"hooked": True, "error": "OSError: libcudart"}
    assert json.dumps(said)


def test_other_profilers() -> None:
    assert doctor.nsight({}).state == "ok"
    assert doctor.nsight({"NSYS_PROFILING_SESSION_ID": "7"}).state == "warn"
    assert doctor.dcgm(["bash", "python"]).state == "ok"
    assert "dcgmi profmon --pause" in doctor.dcgm(["nv-hostengine"]).says
    assert "python" in " ".join(doctor.running())


def test_a_folder_for_traces_is_a_disk_with_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor.disk(tmp_path / "not-there").state == "warn"
    monkeypatch.setattr(checks, "in_memory", lambda _: False)
    monkeypatch.setattr(checks, "file_system", lambda _: "xfs")
    for free, state in ((40 * GIB, "ok"), (GIB // 4, "warn")):
        monkeypatch.setattr(checks, "free_bytes", lambda _, free=free: free)
        found = doctor.disk(tmp_path)
        assert found.state == state
        takes = "a rank takes up to 0.24 GiB of it for a while"
        assert found.says == f"{free / GIB:.1f} GiB free in {tmp_path} (xfs); {takes}"


def test_a_folder_in_memory_is_no_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "in_memory", lambda _: True)
    monkeypatch.setattr(checks, "file_system", lambda _: "tmpfs")

    says = f"{tmp_path} is memory (tmpfs): traces there take the job's; pass --out on a disk"
    assert doctor.disk(tmp_path) == Check("disk", "warn", says)


TAKES = "a rank takes at most 256 MB of text (--budget), with it 1.5 GiB of memory and "
STAYS = "; about 26 MB of it stay. A window that would take more is cut"
MEASURED = {"stall_s_per_byte": 5e-8}


@pytest.mark.parametrize(
    ("said", "free_gib", "state", "says"),
    [
        (MEASURED, 64, "ok", f"{TAKES}13 s of stall at its end (50 ms for each MB){STAYS}"),
        ({}, None, "ok", f"{TAKES}a stall that only torch could measure{STAYS}"),
        (MEASURED, 2, "warn", f"{STAYS[1:]}, here to a quarter of the 2.0 GiB of free memory"),
    ],
)
def test_what_a_capture_takes_at_most(
    said: Mapping[str, object], free_gib: int | None, state: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "free_memory_bytes", lambda: free_gib and free_gib * GIB)
    found = doctor.capture(said)

    assert found.state == state
    assert found.says.endswith(says)


def test_settings_that_distort() -> None:
    assert doctor.blocking({"CUDA_LAUNCH_BLOCKING": "1"}).state == "warn"
    assert doctor.blocking({"CUDA_LAUNCH_BLOCKING": "0"}).state == "ok"


def test_versions() -> None:
    assert doctor.version("click").startswith("click 8")
    assert doctor.version("no-such-package") == "no no-such-package"
