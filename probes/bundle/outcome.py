"""The results of one window: the error that ended it, the facts of the job, and the files of its rank."""

from __future__ import annotations

from collections.abc import Callable

from ..config import rank_and_world_size
from ..guard import guarded, quietly, silent
from ..machine.sampling import MachineSampler
from ..threaded import InTurn
from .disk import is_full
from .rank_files import RankFiles


class Outcome:
    """Results gathered while the window runs and written at its end, files by a second thread.

    Attributes:
        error: why the capture ended early; None if it did not.
        left_out: why the rank records nothing by choice, "" if it does.
        files: of this rank, once they are claimed.
        written: the files of each window that is over, in order.
        machine: reads what the machine does meanwhile.
        disk_is_full: a file of this window could not be written, since there is no space for it.
    """

    def __init__(self) -> None:
        self.error: str | None = None
        self.left_out = ""
        self.files: RankFiles | None = None
        self.written: list[RankFiles] = []
        self.machine = MachineSampler()
        self.disk_is_full = False
        self._facts: dict[str, object] | None = None
        self._unknown = False
        self._writing = InTurn()

    def begins(self) -> None:
        """Reset the outcome for another window, since that of the last one is written."""
        self.error, self.files, self._facts, self._unknown = None, None, None, False
        self.left_out, self.disk_is_full = "", False
        self.machine.stop()
        self.machine = MachineSampler()
        guarded(self.machine.start, "the machine is not read")

    def failed(self, why: str) -> None:
        """Note the error; the first one counts."""
        self.error = self.error or why

    def meets(self, error: BaseException) -> None:
        """Note whether the error is one of a full disk."""
        self.disk_is_full = self.disk_is_full or is_full(error)

    def claim(self, out: str) -> None:
        """Claim a folder, `out` if that is free."""
        rank, world_size = rank_and_world_size()

        def claim() -> None:  # there even if an exception of the job ends the waiting
            self.files = RankFiles(out, rank, world_size)

        self.beside(claim)
        quietly(self.machine.window_begins)

    @property
    def writing(self) -> bool:
        """Whether something is still being written that was not waited for."""
        return self._writing.busy

    def beside(self, call: Callable[[], object], patience_s: float | None = None) -> None:
        """Run `call`, which works on files, in a second thread; with `patience_s` wait no longer than that."""

        def met() -> None:
            try:
                call()
            except OSError as error:
                self.meets(error)
                raise

        self._writing.run(met, self.failed, patience_s)

    def note(self, known: Callable[[], dict[str, object]]) -> None:
        """Keep the facts, once, while the model lives: it is gone when the exit writes them."""
        if self._facts is None and not self._unknown:
            with silent():
                noted = guarded(lambda: vars(self).update(_facts=known()), "capture facts not written")
            self._unknown = not noted

    def write(self, last: Callable[[], dict[str, object]]) -> None:
        """Write the facts, with what `last` adds of the end, and the marker after which nothing more comes."""
        files, facts, machine = self.files, self._facts, self.machine
        if files is None:
            return
        if facts is not None:
            facts["error"] = self.error

            def write() -> None:
                files.write_record({**facts, **last(), "machine_samples": quietly(machine.facts)})

            guarded(lambda: self.beside(write), "capture facts not written")
        guarded(lambda: self.beside(lambda: files.finish(self.error, self.left_out)), "no marker written")
        self.written.append(files)

    def tell_run_time(self, facts: dict[str, object] | None) -> None:
        """Write where the time of the process went beside its first window, if there is one; at the exit."""
        if facts is not None and self.written:
            quietly(lambda: self.beside(lambda: self.written[0].write_run_time(facts)))
