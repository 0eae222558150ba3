"""The command of `diagnose run`: what is executed, in which environment, how signals and exit codes pass through."""

import contextlib
import errno
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from diagnose.patch_file import Request
from diagnose.probes.apply_allowed import VARIABLE as APPLY

WINDOW = "PYTHON_DIAGNOSE"  # launchers that forward only PYTHON* forward it
SEEN = "PYTHON_DIAGNOSE_SEEN"
_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells say it
_FORWARDED = {
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
}
_LOOK_EVERY_S = 0.2
_BY_THE_KERNEL = 128  # si_code of a signal that a terminal sent: the job, in the same process group, has it already
_INTERPRETERS = ("python", "pypy")


@dataclass(frozen=True)
class Window:
    """Which steps are captured; None leaves the choice to the probe.

    Attributes:
        out: the bundle's folder, absolute.
        steps: profiled steps.
        warmup: steps with the profiler on that are not recorded.
        skip: steps at most until the step times count as settled.
        at_step: the step the window begins at, instead of waiting for step times to settle.
        stop: end the job after the window.
    """

    out: str
    steps: int
    warmup: int
    skip: int | None = None
    at_step: int | None = None
    stop: bool = False


def resolved(command: Sequence[str]) -> list[str]:
    """The command as executed: a script or `-m` gets our interpreter, the rest is run as is.

    A program that is not on PATH is looked for beside our interpreter: environments are often used without activation.
    """
    first = command[0]
    if first == "-m" or first.endswith((".py", ".pyw")):
        return [sys.executable, *command]
    beside = Path(sys.executable).parent / first
    if os.sep not in first and shutil.which(first) is None and beside.is_file():
        return [str(beside), *command[1:]]
    return list(command)


def environment(
    inherited: Mapping[str, str], window: Window, seen: Path, patch: Request | None = None
) -> dict[str, str]:
    """The job's environment: Python in it runs our sitecustomize at start, which applies the patch."""
    bootstrap = str(bootstrap_folder())
    others = [entry for entry in inherited.get("PYTHONPATH", "").split(os.pathsep) if entry != bootstrap]
    path = os.pathsep.join([bootstrap, *others]) if any(others) else bootstrap
    ours = {"PYTHONPATH": path, WINDOW: json.dumps(asdict(window)), SEEN: str(seen)}
    if patch is not None:
        return {**inherited, **patch.variables(inherited), **ours, APPLY: patch.to_json()}
    return {name: text for name, text in inherited.items() if name != APPLY} | ours


def bootstrap_folder() -> Path:
    """Where the sitecustomize is."""
    spec = importlib.util.find_spec("diagnose.probes.bootstrap")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the installation has no diagnose.probes.bootstrap")
    return Path(spec.submodule_search_locations[0]).resolve()


def ignores_our_hook(argv: Sequence[str]) -> str | None:
    """The option that makes the interpreter ignore PYTHONPATH or sitecustomize; None when none is seen."""
    if not Path(argv[0]).name.startswith(_INTERPRETERS):
        return None
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word in ("-", "--"):
            return None
        if word.startswith("--"):
            continue
        for i, letter in enumerate(word[1:], start=1):
            if letter in "IES":
                return f"-{letter}"
            if letter in "cm":
                return None
            if letter in "WX":  # these take a value: the rest of the word, else the next one
                if i == len(word) - 1:
                    next(words, None)
                break
    return None


class Job:
    """The command, running.

    Raises:
        OSError: it cannot be executed; `exit_code_of` tells what a shell would return.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
        try:
            self._process = self._started(argv, env)
        except BaseException:
            self._as_before()
            raise

    def _started(self, argv: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        try:
            return subprocess.Popen(argv, env=env, preexec_fn=self._as_before)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return subprocess.Popen(["/bin/sh", *argv], env=env, preexec_fn=self._as_before)  # as a shell does

    def runs(self, for_s: float) -> bool:
        """Whether the command still runs after `for_s` seconds; returns at once when it ends."""
        try:
            self._process.wait(for_s)
        except subprocess.TimeoutExpired:
            return True
        return False

    def exit_code(self) -> int:
        """Wait for the end; the code is the one a shell gives: 128 + n after signal n."""
        code = self._process.wait()
        return 128 - code if code < 0 else code

    @contextlib.contextmanager
    def forwarding(self) -> Iterator[None]:
        """Signals sent to us reach the command, in a thread: they do so while a report is made too."""
        ended = threading.Event()
        thread = threading.Thread(target=self._forward, args=(ended,), name="signals", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            self._as_before()

    def _forward(self, ended: threading.Event) -> None:
        while not ended.is_set():
            info = signal.sigtimedwait(_FORWARDED, _LOOK_EVERY_S)
            if info is None:
                continue
            if self._process.poll() is not None:  # nothing left to forward to: it is meant for us
                self._as_before()
                os.kill(os.getpid(), info.si_signo)
            elif info.si_code != _BY_THE_KERNEL:
                self._process.send_signal(info.si_signo)

    def _as_before(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def exit_code_of(error: OSError) -> int:
    """What a shell returns for a command that it cannot execute."""
    return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE
