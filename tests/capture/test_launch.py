"""What `diagnose run` prepares: the folder, the command and its environment."""

import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from diagnose.capture.bundle import Bundle
from diagnose.capture.command import bootstrap_folder, environment, ignores_our_hook, resolved
from diagnose.capture.folder import is_first_rank
from diagnose.probes.config import Config


def test_a_rank_that_starts_late_joins_the_folder_of_the_others(tmp_path: Path) -> None:
    step = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"}
    first = Bundle(tmp_path / "out", step | {"SLURM_PROCID": "0"})
    (tmp_path / "out" / "rank0.done").write_text(json.dumps({"rank": 0, "token": first.token}))

    assert first.folder.name == "out"
    assert Bundle(tmp_path / "out", step).folder.name == "out"
    assert Bundle(tmp_path / "out", step | {"SLURM_PROCID": "0"}).folder.name == "out-2"
    assert Bundle(tmp_path / "out", {}).folder.name == "out-3"


def test_the_first_rank_is_found_in_the_environment() -> None:
    assert is_first_rank({})
    assert is_first_rank({"SLURM_PROCID": "0"})
    assert not is_first_rank({"SLURM_PROCID": "3"})
    assert not is_first_rank({"RANK": "1", "SLURM_PROCID": "0"})


def test_what_is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    beside = Path(sys.executable).parent / "pytest"

    assert resolved(["train.py", "-x"]) == [sys.executable, "train.py", "-x"]
    assert resolved(["-m", "pkg"]) == [sys.executable, "-m", "pkg"]
    assert resolved(["sh", "-c", "true"]) == ["sh", "-c", "true"]
    assert resolved(["./x.sh"]) == ["./x.sh"]
    if beside.exists() and shutil.which("pytest") is None:
        assert resolved(["pytest"]) == [str(beside)]


def test_the_environment_keeps_what_was_there() -> None:
    config = Config("/out", 3, 2)
    ours = str(bootstrap_folder())

    assert environment({}, config, Path("s"))["PYTHONPATH"] == ours
    assert environment({"PYTHONPATH": ""}, config, Path("s"))["PYTHONPATH"] == ours
    nested = environment({"PYTHONPATH": f"{ours}:/a::/b", "HOME": "/h"}, config, Path("s"))
    assert nested["PYTHONPATH"] == f"{ours}:/a::/b"
    assert environment({"PYTHONPATH": ":"}, config, Path("s"))["PYTHONPATH"] == f"{ours}::"
    assert environment({"PYTHONPATH": f"{ours}:{ours}"}, config, Path("s"))["PYTHONPATH"] == ours
    assert nested["HOME"] == "/h"
    assert json.loads(nested["PYTHON_DIAGNOSE"])["out"] == "/out"


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("python -I train.py", "-I"),
        ("python3.11 -uE train.py", "-E"),
        ("/opt/bin/python -W ignore -S train.py", "-S"),
        ("python -Wignore -m pkg -I", None),
        ("python train.py -I", None),
        ("python -c -I", None),
        ("torchrun -I", None),
    ],
)
def test_options_that_keep_us_out_are_seen(command: str, option: str | None) -> None:
    assert ignores_our_hook(command.split()) == option


def test_two_bundles_of_one_second_do_not_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda _: "now")

    assert [Bundle(None, {}).folder.name for _ in range(3)] == ["now", "now-2", "now-3"]
