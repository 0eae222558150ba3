"""A Slurm of this machine alone, with two nodes, for the tests that ask a real scheduler."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMMANDS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scontrol", "squeue", "sinfo")
PATIENCE_S = 300  # longer than any busy machine needs
CONFIGURATION = """
ClusterName=scratch
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
Epilog={epilog}
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster; commands run in `folder`, which the nodes see under the same path."""

    folder: Path

    def run(self, *words: str, check: bool = True, **variables: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of Slurm, or one that starts such, to its end."""
        here = {"SLURM_CONF": str(self.folder / "slurm.conf"), "MASTER_PORT": str(free_ports(1)[0])}
        env = os.environ | here | variables
        return subprocess.run(
            words, cwd=self.folder, env=env, capture_output=True, text=True, check=check, timeout=PATIENCE_S
        )

    def submitted(self, script: str, *options: str) -> tuple[str, Path]:
        """The number of a batch job of two tasks on two nodes, and the file that its output goes to."""
        lines = f'#!/bin/bash\ndiagnose() {{ {sys.executable} -m diagnose "$@"; }}\n{script}\n'
        (self.folder / "job.sh").write_text(lines)
        done = self.run("sbatch", "--parsable", "--nodes=2", "--ntasks=2", *options, "job.sh")
        return done.stdout.strip(), self.folder / f"slurm-{done.stdout.strip()}.out"

    def is_queued(self, job: str) -> bool:
        """Whether the job waits or runs."""
        return bool(self.run("squeue", "--noheader", f"--jobs={job}", check=False).stdout.strip())

    def ended(self, job: str) -> None:
        """Wait until the job has left the queue."""
        until(lambda: not self.is_queued(job))


def until(holds: Callable[[], object], shown: Path | None = None) -> None:
    """Wait until something holds, which no event tells; if it never does, a file shows why."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, shown.read_text() if shown is not None and shown.exists() else ""
        time.sleep(0.2)


def printed(words: str, output: Path) -> None:
    """Wait until a job has printed the words."""
    until(lambda: output.exists() and words in output.read_text(), output)


def missing() -> str:
    """Why Slurm cannot be started here; "" if it can."""
    if os.geteuid() != 0:
        return "the daemons of Slurm need root to start a job"
    absent = [name for name in COMMANDS if shutil.which(name) is None]
    return f"{absent[0]} is missing: apt-get install slurmctld slurmd slurm-client munge" if absent else ""


@contextmanager
def started(folder: Path, epilog: Path) -> Iterator[Slurm]:
    """Munge, a controller and two nodes, while the context lasts; their logs stay in the folder."""
    for name in ("state", "n0", "n1"):
        (folder / name).mkdir()
    (folder / "key").write_bytes(os.urandom(128))
    (folder / "key").chmod(0o400)
    known = {"folder": folder, "host": socket.gethostname().partition(".")[0], "ports": free_ports(3)}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(epilog=epilog, **known))
    at = {name: f"--{name}-file={folder}/munge.{name}" for name in ("log", "pid", "seed")}
    munged = ["munged", "-F", "--force", f"--socket={folder}/munge.socket", f"--key-file={folder}/key", *at.values()]
    nodes = [["slurmd", "-D", "-N", name] for name in ("n0", "n1")]
    daemons: list[subprocess.Popen[bytes]] = []
    slurm = Slurm(folder)
    try:
        daemons.append(_daemon(folder, munged))
        until((folder / "munge.socket").exists)
        daemons += [_daemon(folder, words) for words in (["slurmctld", "-D"], *nodes)]
        until(lambda: slurm.run("sinfo", "-h", "-o", "%D %T", check=False).stdout == "2 idle\n")
        yield slurm
    finally:
        slurm.run("scancel", "--user=root", check=False)
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait(PATIENCE_S)


def _daemon(folder: Path, words: Sequence[str]) -> "subprocess.Popen[bytes]":
    env = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
