"""Jobs of a real Slurm with two nodes: what `diagnose run` captures there, and where."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import needs
from slurm_cluster import Slurm, free_ports, missing, printed, started, until

from diagnose.analysis import analyze

pytestmark = [pytest.mark.capture, pytest.mark.slow]
JOB = str(Path(__file__).parents[1] / "ranks" / "jobs" / "plain_ddp.py")
RECIPES = Path(__file__).parents[2] / "docs" / "recipes"
PYTHON = sys.executable
DIAGNOSE = (PYTHON, "-m", "diagnose")
ENDLESS = str(10**9)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    needs("torch")
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("slurm")
    with started(folder, edited(folder, "slurm-epilog.sh")) as running:
        yield running


def edited(folder: Path, recipe: str) -> Path:
    """A recipe with the places of this machine, as an administrator edits it."""
    command = folder / "diagnose"
    command.write_text(f'#!/bin/bash\nexec {" ".join(DIAGNOSE)} "$@"\n')
    text = (RECIPES / recipe).read_text().replace("/opt/diagnose/bin/diagnose", str(command))
    text = text.replace("/shared/diagnose-runs", str(folder / "runs")).replace(
        "nice -n 19 timeout 120 ", "timeout 300 "
    )
    (folder / recipe).write_text(text)
    for path in (command, folder / recipe):
        path.chmod(0o755)
    return folder / recipe


def ranks(folder: Path) -> int:
    return len(analyze(folder).ranks)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_each_task_has_a_diagnose_run_and_that_of_rank_0_reports(slurm: Slurm, tmp_path: Path) -> None:
    done = slurm.run("srun", "-N2", "-n2", "--label", *DIAGNOSE, "run", "--out", f"{tmp_path}/a", "--", PYTHON, JOB)

    reports = [line for line in done.stderr.splitlines() if "; report: " in line]
    assert [line.split(":")[0] for line in reports] == ["0"]
    assert ranks(tmp_path / "a") == 2
    assert files(tmp_path / "a") == [
        "capture-rank0.json", "capture-rank1.json", "diagnosis.json", "rank0.done", "rank0.json.gz", "rank1.done",
        "rank1.json.gz", "report.txt",
    ]  # fmt: skip


def test_one_diagnose_run_in_front_of_srun_follows_the_tasks(slurm: Slurm, tmp_path: Path) -> None:
    slurm.run(*DIAGNOSE, "run", "--out", f"{tmp_path}/b", "--", "srun", "-N2", "-n2", PYTHON, JOB)

    nodes = [json.loads((tmp_path / "b" / f"capture-rank{rank}.json").read_text())["slurm"] for rank in (0, 1)]
    assert ranks(tmp_path / "b") == 2
    assert [node["SLURM_NODEID"] for node in nodes] == ["0", "1"]


def test_an_environment_that_srun_keeps_back_is_named(slurm: Slurm) -> None:
    done = slurm.run(*DIAGNOSE, "run", "--", "srun", "--export=NONE", "-n1", PYTHON, "-c", "pass")

    assert "PYTHONPATH did not reach it (a container, `srun --export=NONE`" in done.stderr


def test_a_job_without_torchrun_on_each_node_is_one_job_with_it(slurm: Slurm, tmp_path: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--nnodes=2", "--nproc_per_node=1", "--rdzv_backend=c10d")
    started_by = (PYTHON, *launcher, "--rdzv_id=1", f"--rdzv_endpoint=localhost:{free_ports(1)[0]}", JOB)
    slurm.run("srun", "-N2", "-n2", *DIAGNOSE, "run", "--out", f"{tmp_path}/c", "--", *started_by)

    assert ranks(tmp_path / "c") == 2


def test_each_task_of_an_array_has_its_folder(slurm: Slurm) -> None:
    before = {*(slurm.folder / "diagnose-runs").glob("*")}
    job, _ = slurm.submitted(f"srun {' '.join(DIAGNOSE)} run --no-report -- {PYTHON} {JOB}", "--array=0-1%1")
    slurm.ended(job)

    made = sorted({*(slurm.folder / "diagnose-runs").glob("*")} - before)
    assert [ranks(folder) for folder in made] == [2, 2]
    assert all(folder.name.startswith("job-") for folder in made)


@pytest.mark.parametrize("form", ["srun diagnose run", "diagnose run -- srun"])
def test_a_job_that_is_queued_again_leaves_both_captures(form: str, slurm: Slurm, tmp_path: Path) -> None:
    before, _, behind = form.partition("diagnose run")
    command = f"{before}{' '.join(DIAGNOSE)} run --out {tmp_path}/d {behind or '--'} {PYTHON} {JOB}"
    job, output = slurm.submitted(
        f'[ -n "$SLURM_RESTART_COUNT" ] && STEPS=40\n{command} ${{STEPS:-{ENDLESS}}}', "--requeue", "--open-mode=append"
    )
    printed("report    ", output)
    slurm.run("scontrol", "requeue", job)
    until(lambda: not waiting(slurm, job))

    assert [ranks(tmp_path / name) for name in ("d", "d-2")] == [2, 2]
    assert all(".diagnose" not in files(tmp_path / name) for name in ("d", "d-2"))


def waiting(slurm: Slurm, job: str) -> bool:
    """Whether the job is still in the queue, in which one that is queued again would wait for two minutes."""
    slurm.run("scontrol", "update", f"JobId={job}", "StartTime=now", check=False)
    return slurm.is_queued(job)


@pytest.mark.parametrize("name", [None, "named-%j.txt"])
def test_the_epilog_of_the_nodes_adds_one_line_to_the_output_of_the_job(name: str | None, slurm: Slurm) -> None:
    run = slurm.folder / "runs" / "root"
    task = f"--task-prolog {edited(slurm.folder, 'slurm-prolog.sh')}"
    script = f"srun {task} bash -c '{' '.join(DIAGNOSE)} run --no-report --out \"$DIAGNOSE_RUN\" -- {PYTHON} {JOB}'"
    job, output = slurm.submitted(script, *([f"--output={name}"] if name else []))
    slurm.ended(job)
    output = slurm.folder / name.replace("%j", job) if name else output
    printed("(again: diagnose analyze", output)

    (line,) = (line for line in output.read_text().splitlines() if line.startswith("diagnose: verdict "))
    assert line.endswith(f"(again: diagnose analyze {run / job})")
    assert slurm.run("sinfo", "-h", "-o", "%T").stdout == "idle\n"  # an epilog that fails drains the node


def test_srun_prints_the_line_of_its_own_epilog(slurm: Slurm, tmp_path: Path) -> None:
    prolog, epilog = (str(edited(slurm.folder, f"slurm-{name}.sh")) for name in ("prolog", "epilog"))
    task = f'{" ".join(DIAGNOSE)} run --no-report --out "$DIAGNOSE_RUN" -- {PYTHON} {JOB}'
    words = ("srun", "-N2", "-n2", "--task-prolog", prolog, "--epilog", epilog, "bash", "-c", task)
    done = slurm.run(*words, DIAGNOSE_ROOT=str(tmp_path))  # apart from what the epilog of the nodes looks at

    assert done.stdout.count("diagnose: verdict ") == 1


def test_ranks_whose_nodes_share_no_folder_are_joined_by_hand(slurm: Slurm, tmp_path: Path) -> None:
    task = f"{' '.join(DIAGNOSE)} run --out {tmp_path}/$SLURMD_NODENAME/local -- {PYTHON} {JOB}"
    done = slurm.run("srun", "-N2", "-n2", "bash", "-c", task)

    assert "diagnose: no trace of rank 1 of 2; if its node does not see this folder" in done.stderr
    assert [ranks(tmp_path / node) for node in ("n0", "n1")] == [1, 1]
    assert ranks(tmp_path) == 2


def test_a_signal_to_the_step_ends_the_job_as_without_diagnose(slurm: Slurm, tmp_path: Path) -> None:
    job, output = slurm.submitted(
        f"srun {' '.join(DIAGNOSE)} run --out {tmp_path}/e -- {PYTHON} {JOB} {ENDLESS}; echo code $?"
    )
    printed("report    ", output)
    slurm.run("scancel", "--signal=TERM", job)
    slurm.ended(job)

    assert "code 143" in output.read_text()
    assert os.listdir(tmp_path) == ["e"]
    assert ".diagnose" not in files(tmp_path / "e")
