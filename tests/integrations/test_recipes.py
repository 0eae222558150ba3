"""The recipes for schedulers, on a sample capture and outside of any: tests of a real Slurm are in test_slurm.py."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from integrations.told import SAMPLES

pytestmark = pytest.mark.long
RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
BUNDLE = "cpu-slow-loader.json.gz"
VERDICT = "verdict data-bound, confidence low"
NEXT = "next DataLoader(..., num_workers=4, persistent_workers=True) gain about 1.7x (1.6-2.1x)"


def diagnose_in(folder: Path, more: str = "") -> Path:
    """A `diagnose` to call by its path, as one that is installed."""
    command = folder / "bin" / "diagnose"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/bash\n{more}\nexec "{sys.executable}" -m diagnose "$@"\n')
    command.chmod(0o755)
    return command


@pytest.fixture
def slurm(tmp_path: Path) -> dict[str, str]:
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    known = {"SLURM_JOB_ID": "17", "SLURM_JOB_USER": user, "DIAGNOSE_ROOT": str(tmp_path / "runs")}
    return dict(os.environ) | known | {"DIAGNOSE": str(diagnose_in(tmp_path))}


def captured(slurm: dict[str, str]) -> Path:
    """The folder that the prolog names, with a trace in it."""
    command = [RECIPES / "slurm-prolog.sh"]
    told = subprocess.run(command, env=slurm, capture_output=True, text=True, check=True).stdout
    folder = Path(told.strip().removeprefix("export DIAGNOSE_RUN="))
    folder.mkdir(parents=True)
    shutil.copy(SAMPLES / BUNDLE, folder / "rank0.json.gz")
    return folder


def epilog(slurm: dict[str, str]) -> str:
    """What it prints; it ends with 0 whatever happens, since Slurm drains the node otherwise."""
    recipe = (RECIPES / "slurm-epilog.sh").read_text()
    hurried = "nice -n 19 timeout 120 "  # beside busy cores two minutes are not enough at this priority
    assert hurried in recipe
    script = Path(slurm["DIAGNOSE_ROOT"]).with_name("epilog.sh")
    script.write_text(recipe.replace(hurried, "timeout 300 "))
    script.chmod(0o755)
    done = subprocess.run([script], env=slurm, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_the_epilog_prints_one_line(slurm: dict[str, str]) -> None:
    folder = captured(slurm)

    (line,) = epilog(slurm).splitlines()
    assert line.startswith(f"diagnose: {VERDICT}")
    assert NEXT in line
    assert line.endswith(f"(again: diagnose analyze {folder})")


def test_of_several_nodes_and_steps_one_tells(slurm: dict[str, str]) -> None:
    captured(slurm)

    assert [epilog(slurm).count("\n"), epilog(slurm)] == [1, ""]


def test_a_job_without_a_capture_has_no_line(slurm: dict[str, str]) -> None:
    assert epilog(slurm) == ""


def test_a_capture_that_cannot_be_read_is_a_line_and_drains_no_node(slurm: dict[str, str]) -> None:
    folder = captured(slurm)
    (folder / "rank0.json.gz").write_bytes(b"no trace")

    line = epilog(slurm)
    assert line.startswith("diagnose: Error: ")
    assert line.count("\n") == 1


def test_a_diagnose_that_is_not_there_drains_no_node(slurm: dict[str, str]) -> None:
    captured(slurm)

    assert epilog(slurm | {"DIAGNOSE": "/nowhere/diagnose"}).count("\n") == 1


def test_the_pod_ends_as_its_training_does_with_one_line_for_kubernetes(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    pod = yaml.safe_load((RECIPES / "kubernetes-job.yaml").read_text())["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}

    runs, message = tmp_path / "runs", tmp_path / "message"
    trains = f'[ "$1" = run ] && mkdir -p "$4" && cp "{SAMPLES / BUNDLE}" "$4/rank0.json.gz" && exit 3'
    path = f"{diagnose_in(tmp_path, trains).parent}:{os.environ['PATH']}"
    (script,) = container["args"]
    command = [*container["command"], script.replace("/runs/", f"{runs}/")]
    known = {"PATH": path, "POD": "train-x", "MESSAGE": str(message)}
    done = subprocess.run(command, env=dict(os.environ) | known, capture_output=True, text=True, check=False)

    assert done.returncode == 3
    assert message.read_text() == done.stdout
    assert done.stdout.startswith(VERDICT)
    assert NEXT in done.stdout
    assert "\n" not in done.stdout
