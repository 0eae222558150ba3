"""The command of `diagnose run` while it runs: how signals and exit codes pass through."""

import contextlib
import errno
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # as shells define it
_NOT_FORWARDED = {  # those that this process handles itself, or that cannot be blocked
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGABRT,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGSEGV,
    signal.SIGSYS,
    signal.SIGTRAP,
}
_FORWARDED = signal.valid_signals() - _NOT_FORWARDED
_STOPPING = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
_TERMINATING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_WAKING = signal.SIGURG  # ignored by default
_LOOK_EVERY_S = 0.05
_STOPS_WITHIN_S = 1.0
_BY_THE_KERNEL = 128  # si_code of a signal that a terminal sent: the job, in the same process group, has it already


class RunningCommand:
    """The command, running. It finds the world as it would without us: nothing of it is closed, reset or held back.

    Args:
        argv: what is executed.
        env: its environment.
        stdout: the descriptor that its output goes to; None is that of this process.
        stderr: likewise.

    Attributes:
        asked_to_end: whether a signal came while it ran by which users end what they started; none that is ignored, as
            a hang-up is under nohup.

    Raises:
        OSError: it cannot be executed; `exit_code_of` gives what a shell would return.
    """

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], stdout: int | None = None, stderr: int | None = None
    ) -> None:
        self._stdout, self._stderr = stdout, stderr
        self.asked_to_end = False
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
        try:
            self._process = self._started(argv, env)
        except BaseException:
            self._as_before()
            raise
        for number in _TERMINATING:  # after the command they end our remaining work, without changing its exit code
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                signal.signal(number, _interrupted)

    def _started(self, argv: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        try:
            return self._executed(argv, env)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            sh = ["/bin/sh", *argv]  # as a shell does
            return self._executed(sh, env)

    def _executed(self, argv: Sequence[str], env: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            argv,
            env=env,
            close_fds=False,
            stdout=self._stdout,
            stderr=self._stderr,
            preexec_fn=self._in_the_child,
        )

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

    def end(self, within_s: float) -> None:
        """Ask the command to end, and kill it if it has not ended within so many seconds."""
        self._process.terminate()
        if self.runs(within_s):
            self._process.kill()

    @contextlib.contextmanager
    def forwarding(self) -> Iterator[None]:
        """Forward signals sent to us to the command, in a thread: also while a report is made."""
        ended = threading.Event()
        thread = threading.Thread(target=self._forward, args=(ended,), name="signals", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no more threads for this user: the signals are forwarded first, the report comes after
            self._forward(ended, until_it_ends=True)
        try:
            yield
        finally:
            ended.set()
            if thread.ident is not None and thread.is_alive():
                signal.pthread_kill(thread.ident, _WAKING)
            if thread.ident is not None:
                thread.join()
            self._heard_again()

    def _forward(self, ended: threading.Event, until_it_ends: bool = False) -> None:
        waits = not until_it_ends
        while not ended.is_set() and not (until_it_ends and self._process.poll() is not None):
            info = _next_signal(ended, waits)
            if info is None or ended.is_set():
                continue
            if self._process.poll() is not None:  # nothing left to forward to: it is meant for us
                waits = False  # an unblocked signal does not wake the wait
                self._heard_again()
                os.kill(os.getpid(), info.si_signo)
            elif info.si_signo == signal.SIGCONT:
                self._continue()
            else:
                self.asked_to_end |= info.si_signo in _TERMINATING and not _is_ignored(info.si_signo)
                if info.si_code != _BY_THE_KERNEL:
                    self._process.send_signal(info.si_signo)
                if info.si_signo in _STOPPING:
                    self._stop_with_the_command()

    def _stop_with_the_command(self) -> None:
        """Stop this process once the command has stopped, so that a waiting shell sees it; not every command stops."""
        until = time.monotonic() + _STOPS_WITHIN_S
        while not self._is_stopped() and self._process.poll() is None:
            if time.monotonic() > until:
                return
            time.sleep(_LOOK_EVERY_S / 2)
        if self._process.poll() is None:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _continue(self) -> None:
        """Continue the command if it is stopped: a shell continues it together with us, others only know us."""
        if self._is_stopped():
            self._process.send_signal(signal.SIGCONT)

    def _is_stopped(self) -> bool:
        try:
            after_the_name = Path(f"/proc/{self._process.pid}/stat").read_text(errors="replace").rpartition(")")[2]
        except OSError:
            return False
        return after_the_name.split()[0] == "T"

    def _in_the_child(self) -> None:
        """Restore default handling of Ctrl-C in the child:

        Python's handler would swallow one that comes before the command.
        """
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._as_before()

    def _heard_again(self) -> None:
        """Unblock all signals but the one that may stop a background job that writes to a terminal: we write there."""
        signal.pthread_sigmask(signal.SIG_SETMASK, {*self._mask, signal.SIGTTOU})

    def _as_before(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def _next_signal(ended: threading.Event, waits: bool) -> signal.struct_siginfo | None:
    """The next signal that came; a thread that `waits` blocks until one comes, others poll and may return None.

    A wait with a time limit cannot be used: if the process is stopped for longer, Python makes up a signal.
    """
    if waits:
        return signal.sigwaitinfo(_FORWARDED)
    info = signal.sigtimedwait(_FORWARDED, 0)
    if info is None:
        ended.wait(_LOOK_EVERY_S)
    return info


def become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Execute the command in place of this process, which then cannot report.

    Raises:
        OSError: it cannot be executed.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(argv[0], list(argv), dict(env))


def deaf() -> None:
    """Ignore all signals that can be ignored, so that none changes how this process ends."""
    for number in _TERMINATING:
        signal.signal(number, signal.SIG_IGN)


def exit_code_of(error: OSError) -> int:
    """The exit code that a shell returns for a command that it cannot execute."""
    return _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_EXECUTABLE


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
