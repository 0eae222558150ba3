"""The bundle knows the job's command, so that the command that tries a change can be pasted into a shell."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from diagnoses import DATA_WAIT, diagnosis
from msgspec.structs import replace
from needs import needs

from diagnose.analysis import analyze
from diagnose.capture.command import recorded
from diagnose.diagnosis import Diagnosis, Recommendation
from diagnose.probes.redaction import words_without_secrets
from diagnose.report.views.to_try import command_to_try, command_with

ENV = {"OMP_NUM_THREADS": "1", "DIAGNOSE_LEDGER": "off"}
SLOW_LOADER = """
import argparse, time, torch
from torch.utils.data import DataLoader, Dataset
parser = argparse.ArgumentParser()
parser.add_argument("--name"), parser.add_argument("--hf-token")
given = parser.parse_args()
print("given:", given.name, given.hf_token)
if "RANK" in __import__("os").environ:
    torch.distributed.init_process_group("gloo")
class Slow(Dataset):
    def __len__(self): return 400
    def __getitem__(self, at):
        time.sleep(0.02)
        return torch.ones(8)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for number, batch in zip(range(45), DataLoader(Slow(), batch_size=1)):
    model(batch).sum().backward()
    optimizer.step()
"""


def told(command: list[str], kind: str = "change", folder: str = "runs/a b") -> Diagnosis:
    """A diagnosis of a run of the command, of which the loader comes next."""
    known = diagnosis()
    trace = replace(known.trace, files=(f"{folder}/rank0.json.gz", f"{folder}/rank1.json.gz"))
    following = Recommendation(kind=kind, says="", rule="data-wait", patch=DATA_WAIT.patch)  # type: ignore[arg-type]
    return replace(known, command=tuple(words_without_secrets(command)), next=following, trace=trace)


def started(*args: str, folder: Path, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "diagnose", "run", *args]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **ENV, **(env or {})}, capture_output=True, text=True, check=True
    )


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        (["python", "train.py", "--lr", "3e-4"], "python train.py --lr 3e-4"),
        (["torchrun", "--nproc_per_node", "8", "t.py"], "torchrun --nproc_per_node 8 t.py"),
        (["srun", "-n", "4", "python", "t.py"], "srun -n 4 python t.py"),
        (["t.py", "--name", "a b; rm"], "t.py --name 'a b; rm'"),
        (["t.py", "--hf_token=x1"], 't.py --hf_token="${HF_TOKEN:?}"'),
        (["t.py", "--hf-token", "x1", "--lr", "1"], 't.py --hf-token "${HF_TOKEN:?}" --lr 1'),
        (["bash", "-c", "WANDB_API_KEY=x1 t"], """bash -c WANDB_API_KEY="${WANDB_API_KEY:?}"' t'"""),
        (["t.py", "+wandb.api_key=x1"], """t.py +wandb.api_key="${WANDB_API_KEY:?}\""""),
        (["t.py", "hf_aBcDeFgH1234"], 't.py "${SECRET:?}"'),
    ],
)
def test_the_command_is_the_jobs_own_quoted_for_a_shell(command: list[str], typed: str) -> None:
    assert command_to_try(told(command)) == f"diagnose run --apply 'runs/a b'#data-wait -- {typed}"


def test_a_better_capture_runs_the_command_again() -> None:
    assert command_to_try(told(["train.py"], kind="capture")) == "diagnose run -- train.py"


@pytest.mark.parametrize(
    "without",
    [told([]), told(["a\x1bb"]), told(["t.py"], "nothing"), told(["t.py"], folder="s3://bucket/run")],
    ids=["no command", "what no terminal shows", "nothing to do", "no folder here"],
)
def test_what_cannot_be_pasted_is_left_out(without: Diagnosis) -> None:
    known = replace(without, next=replace(without.next, patch=None)) if without.next.kind == "nothing" else without

    assert command_to_try(known) == ""


def test_a_launcher_of_several_runs_and_a_very_long_command_are_not_recorded() -> None:
    assert recorded(["t.py"], {"WORLD_SIZE": "2", "RANK": "1"}) is None
    assert recorded(["t.py", "x" * 9000], {}) is None
    assert recorded(["t.py", "no text: \udcff"], {}) is None
    assert recorded(["t.py"], {}) == ["t.py"]


@pytest.mark.parametrize("secret", ["", "x1"])
def test_a_shell_refuses_the_line_without_the_secret_and_runs_it_with(secret: str) -> None:
    line = command_to_try(told(["t.py", "--hf-token", "abc", "--name", "a b"]))

    shown = "set -- " + line.split(" -- ", 1)[1] + '; printf "%s|" "$@"'
    done = subprocess.run(["sh", "-c", shown], env={"HF_TOKEN": secret}, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == ((0, "t.py|--hf-token|x1|--name|a b|") if secret else (2, ""))


@pytest.mark.capture
@pytest.mark.long
def test_the_printed_command_runs_the_job_with_the_change(tmp_path: Path) -> None:
    needs("torch")
    (tmp_path / "train.py").write_text(SLOW_LOADER)
    started("--out", "run", "--", sys.executable, "train.py", "--hf-token", "s1", "--name", "a b", folder=tmp_path)

    answer = analyze(tmp_path / "run")
    waits = next(finding for finding in answer.findings if finding.rule == "data-wait")
    line = shlex.quote(sys.executable) + " -m " + command_with(answer, "data-wait", waits.patch)
    line = line.replace("diagnose run ", "diagnose run --out again ", 1)
    variables = {**os.environ, **ENV, "HF_TOKEN": "s2"}
    done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=variables, capture_output=True, text=True, check=True)

    assert done.stdout == "given: a b s2\n"
    assert "diagnose: to apply: DataLoader(..., num_workers=" in done.stderr
    again = json.loads((tmp_path / "again" / "diagnosis.json").read_text())
    assert again["applied"]["rule"] == "data-wait"
    assert again["command"] == list(answer.command)


@pytest.mark.slow
def test_two_ranks_of_torchrun_record_the_launchers_command(tmp_path: Path) -> None:
    needs("torch")
    (tmp_path / "train.py").write_text(SLOW_LOADER)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "train.py", "--name", "n"]
    started("--out", "run", "--", *command, folder=tmp_path)

    answer = analyze(tmp_path / "run")

    assert len(answer.ranks) == 2
    assert list(answer.command) == command
    assert command_with(answer, "data-wait", DATA_WAIT.patch).endswith(f"#data-wait -- {shlex.join(command)}")


@pytest.mark.capture
def test_a_folder_without_a_diagnosis_says_how_to_write_one(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    command = [sys.executable, "-m", "diagnose", "run", "--apply", "run#data-wait", "--", "train.py"]

    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 3
    assert "the folder holds no diagnosis" in done.stderr
    assert "do: write it: diagnose analyze run --json > run/diagnosis.json" in " ".join(done.stderr.split())
