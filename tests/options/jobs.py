"""Real jobs under commands that start one, each run once, whoever of pytest's workers asks first."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kept_promises import kept_at_any_speed
from options.rows import SAMPLES, called

SCRIPTS = Path(__file__).parent / "scripts"
PROGRAM = Path(sys.executable).parent / "diagnose"
PATIENCE_S = 300  # longer than any busy machine needs
OURS = re.compile(r"^(\[transformers\] )?diagnose: ")
OF_TORCH = re.compile(r"^USDT:")  # which torch's profiler itself writes
NOTHING_OF_OURS = re.compile(r"(?!)")


@dataclass(frozen=True)
class Job:
    """A command line that starts a job.

    Args:
        line: the words after `diagnose`, up to `--`; "" for the job without it.
        job: the words after `--`, of which the script is copied into the working folder.
        alike: whether the job itself ends and prints as without us, to which the tests hold it.
        prints: what the job prints because it was asked for: lines that hold this.
        report: whether the report is printed among what the job prints on stderr.
        after: a job in a copy of whose folder the command line goes on; else the folder is empty.
        before: words after `diagnose` that print a diagnosis as JSON; it is in `before.json`, which the command line
            reads, with promises that any speed keeps.
        meanwhile: words after `diagnose`, called one after another while the job trains; what each says is in
            `meanwhile-N.txt`. Then the file `enough` is made.
        variables: of the environment; `{here}` stands for the working folder.
    """

    line: str
    job: str = "loop.py"
    alike: bool = True
    prints: re.Pattern[str] = NOTHING_OF_OURS
    report: bool = False
    after: str = ""
    before: str = ""
    meanwhile: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def script(self) -> str:
        """The script's file name."""
        return next((word for word in self.job.split() if word.endswith(".py")), "")


@dataclass(frozen=True)
class Seen:
    """What came of it: the exit code, both streams, and the folder that it worked in."""

    code: int
    stdout: str
    stderr: str
    here: Path

    @property
    def bundle(self) -> Path:
        """The folder that `diagnose run` wrote; one that is not there where it wrote none."""
        logs = [*self.here.rglob("capture-rank*.json"), *self.here.rglob("rank0.steps")]
        return min((path.parent for path in logs), key=lambda path: len(path.parts), default=self.here / "none")

    @property
    def record(self) -> dict[str, Any]:
        """What rank 0 recorded of its capture; empty where there is none."""
        return self.json(str(self.bundle / "capture-rank0.json"))

    def records(self, folder: str) -> list[dict[str, Any]]:
        """What rank 0 recorded in folders of this name; one that is empty where there is none."""
        return [self.json(str(path)) for path in self.here.rglob(f"{folder}/capture-rank0.json")] or [{}]

    @property
    def tuning(self) -> dict[str, Any]:
        """What `diagnose tune` kept; empty where it kept nothing."""
        found = [*self.here.rglob("tune.json")]
        return self.json(str(found[0])) if found else {}

    @property
    def windows(self) -> list[dict[str, Any]]:
        """The windows of an armed run, each with its first step and why it opened."""
        log = self.bundle / "rank0.steps"
        told = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
        return [entry for entry in told if entry.get("what") == "window"]

    def json(self, name: str) -> Any:
        """What a JSON file holds; empty where there is none."""
        path = self.here / name
        return json.loads(path.read_text()) if path.is_file() else {}

    def text(self, name: str) -> str:
        """What a file holds; "" where there is none."""
        path = self.here / name
        return path.read_text() if path.is_file() else ""


def command_of(job: Job) -> list[str]:
    """The command line as it is started: our own executable, or the job alone."""
    words = job.job.split()
    if job.line:
        return [str(PROGRAM), *job.line.split(), *(["--", *words] if words else [])]
    program, *arguments = words
    beside = Path(sys.executable).parent / program
    return [sys.executable, program, *arguments] if program.endswith(".py") else [str(beside), *arguments]


class Jobs:
    """The jobs by name.

    Args:
        all_of_them: the table.
        shared: a folder that pytest's workers share.
    """

    def __init__(self, all_of_them: Mapping[str, Job], shared: Path) -> None:
        self._jobs, self._shared = all_of_them, shared

    def __call__(self, name: str) -> Seen:
        """What came of the job, which runs unless it has."""
        with only_one(self._shared / f"{name}.lock"):
            kept = self._shared / f"{name}.json"
            if not kept.exists():
                kept.write_text(json.dumps(asdict(self._run(name)), default=str))
            told = json.loads(kept.read_text())
        return Seen(**{**told, "here": Path(told["here"])})

    def _run(self, name: str) -> Seen:
        job, here = self._jobs[name], self._shared / name
        if job.after:
            shutil.copytree(self(job.after).here, here)
        here.mkdir(exist_ok=True)
        if job.script:
            shutil.copy(SCRIPTS / job.script, here)
        if job.before:
            done = called(job.before, lambda name: SAMPLES / name, {}, here)
            (here / "before.json").write_text(json.dumps(kept_at_any_speed(json.loads(done.stdout))))
        ours = {"OMP_NUM_THREADS": "1", "COLUMNS": "160", **job.variables}
        variables = os.environ | {key: value.replace("{here}", str(here)) for key, value in ours.items()}
        if not job.meanwhile:
            (here / "enough").touch()
        process = subprocess.Popen(
            command_of(job), cwd=here, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with process:
            _do_meanwhile(job.meanwhile, here, process)
            stdout, stderr = process.communicate(timeout=PATIENCE_S)
        return Seen(process.returncode, stdout, stderr, here)


def _do_meanwhile(lines: Sequence[str], here: Path, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + PATIENCE_S
    while lines and not _trains(here) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    for number, line in enumerate(lines):
        command = [str(PROGRAM), *line.split()]
        with open(here / f"meanwhile-{number}.txt", "w") as said:
            subprocess.run(command, cwd=here, stdout=said, stderr=said, timeout=PATIENCE_S, check=False)
    (here / "enough").touch()


def _trains(here: Path) -> bool:
    """Whether an armed job has told of its steps."""
    return any('"us"' in log.read_text() for log in here.rglob("rank0.steps"))


def as_without_us(job: Job, seen: Seen) -> tuple[int, list[str], list[str]]:
    """The exit code, and what the job itself printed on both streams, as far as lines tell."""
    stdout = [line for line in seen.stdout.splitlines() if not job.prints.search(line)]
    stderr = [line for line in seen.stderr.splitlines() if not (OURS.match(line) or OF_TORCH.match(line))]
    stderr = [line for line in stderr if not job.prints.search(line)]
    return seen.code, stdout, [line for line in stderr if line.strip()]


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Nobody else holds the file meanwhile."""
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


Check = Callable[[Seen], None]


@dataclass(frozen=True)
class Effect:
    """What an option does to a real job.

    Args:
        command: the words after `diagnose`.
        option: the option or argument.
        job: the job that was given it.
        beside: one without it, of which the check does not hold.
        check: asserts the effect.
        slow: whether it rests on how long the steps take, which a busy machine changes.
    """

    command: str
    option: str
    job: str
    beside: str
    check: Check
    slow: bool = False


class Effects(list[Effect]):
    """A table of effects, each a function under a line that says which option of which jobs it is about."""

    def of(self, command: str, option: str, job: str, beside: str, slow: bool = False) -> Callable[[Check], Check]:
        """The decorated function asserts what the option did to the job, and fails for the one beside."""

        def keep(check: Check) -> Check:
            self.append(Effect(command, option, job, beside, check, slow))
            return check

        return keep
