"""Report the capture of `diagnose run`: the report as soon as it can be made, else why there is none."""

import contextlib
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from diagnose.capture.bundle import Bundle, Written
from diagnose.capture.command import ignores_our_hook
from diagnose.capture.unreached import ended
from diagnose.cli.near import near
from diagnose.cli.voice import guarded, say
from diagnose.commands.armed.arming import tell_armed
from diagnose.commands.ledger.option import record, with_track_records
from diagnose.commands.run.outputs import Outputs
from diagnose.errors import printable
from diagnose.probes.protocol import DIAGNOSIS, REPORT, TRACE, WINDOW_FOLDER

if TYPE_CHECKING:
    from diagnose.commands.armed.answer import ArmedRun
    from diagnose.commands.run.answer import RunFinding
    from diagnose.diagnosis import Diagnosis

POLL_EVERY_S = 0.3
_ANY_WINDOW = WINDOW_FOLDER.format("*")
_MOST_RANKS = 8
_WAIT_FOR_RANKS_S = 120.0  # after the last rank that came; then the report does without the others
_ELSEWHERE = (
    "; if its node does not see this folder, put what it wrote there and this folder below one, for diagnose analyze"
)
WAIT_FOR_PARENTS_S = 30.0  # after our command ended, when each rank has a `diagnose run` of its own


class Reporter:
    """Reports the first window, once.

    Args:
        bundle: the folder that the ranks write.
        outputs: the outputs of the report.
        no_ledger: whether the track record is left alone.

    Attributes:
        done: whether nothing is to be reported any more.
        told: the report in a line, "" while there is none.
    """

    failing = "no report"

    def __init__(self, bundle: Bundle, outputs: Outputs, no_ledger: bool = True) -> None:
        self._bundle, self._outputs, self._no_ledger = bundle, outputs, no_ledger
        self._came, self._since = 0, time.monotonic()
        self.done = False
        self.told = ""
        self._diagnosis: Diagnosis | None = None
        self._run: str | None = None

    def look(self) -> None:
        """Report once every rank has written, or when the missing ones are long overdue."""
        try:
            written = self._bundle.written()
        except Exception:
            self.done = True  # it would fail again and again
            raise
        if not written.traces:
            return
        if len(written.traces) != self._came:
            self._came, self._since = len(written.traces), time.monotonic()
        if written.complete or time.monotonic() - self._since > _WAIT_FOR_RANKS_S:
            with contextlib.suppress(OSError):
                os.nice(10)  # the job goes on
            self.report(written)

    def report(self, written: Written) -> None:
        """Make the report of the traces."""
        self.done = True
        if written.traces and written.missing:
            say(_without(written, self._bundle.spans_nodes(written)))
        if written.left_out:
            say(_left_out(written))
        self.publish(_run_of(self._bundle.folder, written))

    def publish(self, run: str | None = None) -> None:
        """Make the report of the folder, or of one run in it, with its prediction and the ledger's quotes."""
        self.done = True
        self._run = run
        self._publish(again=False)

    def _publish(self, again: bool) -> None:
        from diagnose import analysis
        from diagnose.cli.measured_machines import measured_machines

        options = analysis.Options(run=self._run, measured=measured_machines())
        diagnosis = analysis.analyze(self._bundle.folder, options=options)
        if not self._no_ledger and not again:
            guarded(lambda: record(diagnosis), "not kept in the ledger of promises")
        quoting = with_track_records(diagnosis, self._no_ledger)
        self._keep(quoting)
        self._diagnosis = quoting
        self.told = self._outputs.publish(quoting, self._bundle.folder, printable(near(self._bundle.folder)), again)

    def tell_second(self) -> None:
        """Make the report again when the job has ended, if a second window came after it."""
        from diagnose.report.views.windows import windows_lines

        if self._diagnosis is None or not any(self._bundle.folder.glob(f"{_ANY_WINDOW}/{TRACE.format('*')}")):
            return
        self._publish(again=True)
        for line in windows_lines(self._diagnosis):
            say(printable(line.replace(str(self._bundle.folder), near(self._bundle.folder))))

    def tell_goodput(self) -> None:
        """Say where the time of the whole run went when the job has ended, and write it into the report made before."""
        from msgspec.structs import replace

        from diagnose.judge.goodput import goodput_beside
        from diagnose.judge.start import with_start
        from diagnose.report.views.goodput import goodput_line, start_lines

        folder, diagnosis = self._bundle.folder, self._diagnosis
        goodput = goodput_beside(folder, diagnosis.ranks[0].rank) if diagnosis and diagnosis.ranks else None
        if diagnosis is None or goodput is None:
            return
        before = diagnosis.goodput
        whole = replace(diagnosis, goodput=with_start(goodput, before.start if before else None))
        if whole != diagnosis:
            self._keep(whole)
            self._outputs.write(whole, folder, f"{printable(near(folder))}/{REPORT}")
        say(f"goodput: {goodput_line(whole)}")
        for line in start_lines(whole)[:1]:
            say(line)

    def _keep(self, diagnosis: "Diagnosis") -> None:
        from diagnose.cli.kept import keep

        guarded(lambda: keep(diagnosis, self._bundle.folder), f"no {DIAGNOSIS} in the bundle")


def last_words(bundle: Bundle, reporter: Reporter | None, argv: list[str], code: int = 0) -> None:
    """Report after the command ended: the report if it is still due, or why there is none, and further windows."""
    written = _all_written(bundle)
    if written.left_out and not written.traces:
        say(f"{_left_out(written)}; see them: diagnose series {printable(near(bundle.folder))}")
    elif not written.traces and not bundle.traces():
        say(f"nothing captured: {printable(_why_nothing(bundle, written, argv, code))}")
    elif reporter is None:
        say(f"captured into {printable(near(bundle.folder))}")
    else:
        if not reporter.done:
            reporter.report(written)
        guarded(reporter.tell_second, "no report of the second window")
        guarded(reporter.tell_goodput, "no goodput of the run")
        if cut := bundle.cut():
            say(printable(_cut_line(cut)))
        if unrecorded := bundle.unrecorded():
            of, its = _ranks(unrecorded), "their records were" if unrecorded[1:] else "its record was"
            say(f"{of} ended after the window, before {its} complete: what only that tells is not judged")
    if bundle.further_windows():
        say(f"more windows, for `diagnose analyze`: {printable(', '.join(map(near, bundle.further_windows())))}")


def armed_words(bundle: Bundle, outputs: Outputs, argv: list[str], no_ledger: bool, code: int = 0) -> None:
    """Report an armed run after the command ended: its steps and its windows, or why there is none."""
    from diagnose.series.places import step_logs
    from diagnose.series.timing_log import all_ended

    until = time.monotonic() + (WAIT_FOR_PARENTS_S if bundle.shared else 0)
    while time.monotonic() < until and not all_ended(bundle.folder):
        time.sleep(POLL_EVERY_S)
    if not step_logs(bundle.folder):
        say(f"nothing captured: {printable(_why_nothing(bundle, bundle.written(), argv, code))}")
    elif not outputs.wanted:
        holds = any(True for _ in bundle.folder.glob(f"{_ANY_WINDOW}/{TRACE.format('*')}"))
        where = printable(near(bundle.folder))
        say(f"captured into {where}" if holds else f"step times into {where}; no window holds a trace")
    else:
        run = tell_armed(bundle.folder, near(bundle.folder), outputs.printed, outputs.files, no_ledger)
        outputs.tell(lambda: _findings(run, bundle.folder))


def _findings(run: "ArmedRun", folder: Path) -> "Iterable[RunFinding]":
    from diagnose.commands.run.findings import of_armed

    return of_armed(run, folder)


def _without(written: Written, spans_nodes: bool) -> str:
    """Line with the ranks that the report lacks, and the reason of the first that has one, else where they may be."""
    more = ", ..." if len(written.missing) > _MOST_RANKS else ""
    listed = ", ".join(map(str, written.missing[:_MOST_RANKS]))
    why = next((f" ({printable(written.errors[rank])})" for rank in written.missing if rank in written.errors), "")
    return f"no trace of rank {listed}{more} of {written.world_size}{why or _ELSEWHERE * spans_nodes}"


def _left_out(written: Written) -> str:
    """Line with the ranks that record nothing by choice, and the reason."""
    ranks = sorted(written.left_out)
    listed = ", ".join(map(str, ranks[:_MOST_RANKS])) + (", ..." if len(ranks) > _MOST_RANKS else "")
    whose = f" of rank {listed} ({len(ranks)} of {written.world_size})" if written.world_size > 1 else ""
    return f"step times only{whose}: {printable(written.left_out[ranks[0]])}"


def _why_nothing(bundle: Bundle, written: Written, argv: list[str], code: int) -> str:
    if written.errors:
        why = next(iter(written.errors.values()))
        return f"{ended(code)}; {why}" if code else why
    if cut := bundle.cut():
        return _cut_line(cut)
    option = ignores_our_hook(argv)
    return f"Python runs with {option}" if option else bundle.why_empty(code)


def _cut_line(cut: dict[int, str]) -> str:
    """Line with the ranks that ended inside their window, and the reason if one of them left it."""
    ranks = sorted(cut)
    why = next((f": {cut[rank]}" for rank in ranks if cut[rank]), "")
    traces = "their traces were" if ranks[1:] else "its trace was"
    return f"{_ranks(ranks)} ended inside the window, before {traces} written{why}"


def _ranks(ranks: list[int]) -> str:
    listed = ", ".join(map(str, ranks[:_MOST_RANKS])) + (", ..." if len(ranks) > _MOST_RANKS else "")
    return f"{'ranks' if ranks[1:] else 'rank'} {listed}"


def _all_written(bundle: Bundle) -> Written:
    """The ranks that are done; those of other parents (`srun diagnose run`) may still be writing and are awaited."""
    until = time.monotonic() + WAIT_FOR_PARENTS_S
    written = bundle.written()
    while bundle.shared and written.traces and not written.complete and time.monotonic() < until:
        time.sleep(POLL_EVERY_S)
        written = bundle.written()
    return written


def _run_of(folder: Path, written: Written) -> str | None:
    """The analysis's name of the run just written; None if the folder holds no other."""
    from diagnose.trace.discover import runs_of, trace_files

    runs = runs_of(trace_files(folder))
    if len(runs) < 2:
        return None
    wanted = set(written.traces.values())
    return max(runs, key=lambda run: len(wanted & {file.path.name for file in run.files})).name
