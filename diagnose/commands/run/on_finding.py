"""`diagnose run --on-finding`: a command of the user's that this process, and never the job, starts for findings."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any

import click

from diagnose.cli.command import Option
from diagnose.cli.voice import say
from diagnose.errors import printable

if TYPE_CHECKING:
    from diagnose.commands.run.answer import RunFinding

EVERY_S = 10.0
LONGEST_S = 10.0
MOST_WAITING = 64
_POLL_EVERY_S = 0.1
_LONGEST_REASON = 300

on_finding_option: Callable[[Any], Any] = click.option(
    "--on-finding",
    cls=Option,
    idle_with={"print_line": "--print prints a line that finds nothing"},
    metavar="COMMAND",
    help="Start this command of the shell when a verdict, a stall, a slow rank, a leak or a hang is found, with the "
    f"findings as JSON on its standard input, one a line; at most every {EVERY_S:.0f} s.",
)


class FindingCommand:
    """The command, which is started with all findings that wait; nothing that becomes of it is passed on.

    It runs in a session of its own, so that Ctrl-C for the job does not end it, and is killed after `LONGEST_S`.

    Args:
        command: for the shell.
        environment: as this process was started with, without what is for the job.

    Attributes:
        done: whether nothing waits, and the command does not run.
    """

    failing = "no more findings for --on-finding"

    def __init__(self, command: str, environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._known: set[tuple[str, str]] = set()
        self._waiting: deque[str] = deque(maxlen=MOST_WAITING)
        self._running: tuple[subprocess.Popen[bytes], IO[bytes]] | None = None
        self._started_s = float("-inf")
        self._failed = False

    @property
    def done(self) -> bool:
        """Whether nothing waits, and the command does not run."""
        return self._running is None and not self._waiting

    def tell(self, findings: "Iterable[RunFinding]") -> None:
        """Take in those that are new, the oldest making room for them, and start the command if it is time."""
        for finding in findings:
            if (key := (finding.kind, finding.about)) not in self._known:
                self._known.add(key)
                self._waiting.append(finding.to_json())
        self.look()

    def look(self) -> None:
        """Start the command if findings wait and it is time; kill one that takes too long, say once if it failed."""
        now_s = time.monotonic()
        if self._running is not None:
            self._end_if_over(*self._running, now_s)
        if self._running is None and self._waiting and now_s - self._started_s >= EVERY_S:
            self._started_s = now_s
            self._start()

    def finish(self) -> None:
        """Deliver what still waits when the job has ended, for at most `EVERY_S` and `LONGEST_S` together."""
        until = time.monotonic() + EVERY_S + LONGEST_S
        try:
            while not self.done and time.monotonic() < until:
                self.look()
                time.sleep(_POLL_EVERY_S)
        finally:
            if self._running is not None:
                _kill(self._running[0])

    def _start(self) -> None:
        given = "".join(f"{line}\n" for line in self._waiting).encode()
        self._waiting.clear()
        try:
            self._running = _started(self._command, self._environment, given)
        except (OSError, ValueError) as error:  # no process, no room on the disk, or a command that holds a null
            self._say_failed(getattr(error, "strerror", None) or str(error))

    def _end_if_over(self, process: "subprocess.Popen[bytes]", errors: IO[bytes], now_s: float) -> None:
        took_too_long = process.poll() is None and now_s - self._started_s >= LONGEST_S
        if took_too_long:
            _kill(process)
        if process.poll() is None:
            return
        self._running = None
        with errors:
            errors.seek(0)
            said = errors.read(_LONGEST_REASON).decode(errors="replace").strip().partition("\n")[0]
        if took_too_long:
            self._say_failed(f"it took more than {LONGEST_S:.0f} s and was ended")
        elif process.returncode:
            self._say_failed(": ".join(filter(None, (f"it ended with {process.returncode}", said))))

    def _say_failed(self, why: str) -> None:
        if not self._failed:
            say(f"--on-finding failed, which is said once: {printable(why)}")
        self._failed = True


def _started(command: str, environment: Mapping[str, str], given: bytes) -> "tuple[subprocess.Popen[bytes], IO[bytes]]":
    """The command, and what it writes on standard error. Files take the place of pipes, which could fill up."""
    with contextlib.ExitStack() as opened:
        errors = opened.enter_context(tempfile.TemporaryFile())
        with tempfile.TemporaryFile() as file:
            file.write(given)
            file.seek(0)
            process = subprocess.Popen(
                ["/bin/sh", "-c", command],
                env=dict(environment),
                stdin=file,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                preexec_fn=_hear_all,
            )
        opened.pop_all()
    return process, errors


def _hear_all() -> None:
    """Let the command get the signals that this process holds back to forward them to the job."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the command with all that it started."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(1.0)
