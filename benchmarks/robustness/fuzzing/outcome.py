"""How a case ends: read, refused, or a defect with a name by which it is known again."""

import contextlib
import io
import os
import re
import shutil
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from diagnose.cli import main
from diagnose.diagnosis.answer import Answer

from .case import Case
from .checks import Wrong, check_answer, check_diagnosis, check_finite, check_text
from .entries import everything_kept
from .environments import limited
from .worlds import asked, named, not_run, patched

HANGS_AFTER_S = 60
LONGEST_CPU_S = 10.0
_USAGE = ("settings", "rule", "planned", "compared")  # only these kinds hold what can be wrong usage
_NAMES_A_PART = {"--rank", "--run", "--step", "--step-column", "--step-range", "--time-column", "--unit"}  # of the file
_JUDGED = ("settings", "baseline")  # these may end in 1: a file of settings may say --fail-on


@dataclass(frozen=True)
class Outcome:
    """How a try ended: "read", "refused", or "DEFECT ..."; and the seconds of processor time that it took."""

    name: str
    cpu_s: float = 0.0

    @property
    def is_defect(self) -> bool:
        """Whether this must not be."""
        return self.name.startswith("DEFECT")

    @property
    def signature(self) -> str:
        """The part of the name by which two outcomes are the same."""
        kind, _, text = self.name.partition(": ")
        return re.sub(r"\d+", "", f"{kind}: {text[:60]}" if kind == "DEFECT wrong" else kind)


class Hang(BaseException):
    """The try runs for too long; no handler of the product may hold it."""


def outcome_of(case: Case, folder: Path, *, thorough: bool = True) -> Outcome:
    """Writes the case into `folder`, runs it, and checks what came out."""
    place = folder / "case"
    case.write(place)
    begin = time.process_time()
    try:
        with _bounded(), _quiet(), _home(folder):
            name = _run(case, place, thorough)
    except Wrong as error:
        name = f"DEFECT wrong: {error}"
    except Hang:
        name = f"DEFECT hang: over {HANGS_AFTER_S} s"
    took = time.process_time() - begin
    if took > LONGEST_CPU_S and not name.startswith("DEFECT"):
        name = f"DEFECT slow: over {LONGEST_CPU_S:.0f} s"
    return Outcome(name[:300], took)


def _run(case: Case, place: Path, thorough: bool) -> str:
    if case.world == "patch":
        return patched(case.arguments[0].replace("@", f"{place}/", 1))
    if case.world == "agent":
        return asked(*case.arguments, place)
    (place / "out").mkdir(exist_ok=True)
    arguments = [f"{place}/{word[1:]}" if word.startswith("@") else word for word in case.arguments]
    if case.world == "inside":
        with contextlib.chdir(place):
            return _commanded(case, arguments, place, thorough)
    if case.world == "cached":
        with everything_kept():
            first = _commanded(case, arguments, place, False)
            if first == "read":
                _replace_entry(place)
            return _commanded(case, arguments, place, thorough) if first == "read" else first
    if case.world == "not run":
        with not_run(place):
            return _commanded(case, arguments, place, thorough)
    if case.world == "limited":
        with limited(place):
            return _commanded(case, arguments, place, thorough)
    return _commanded(case, arguments, place, thorough)


def _replace_entry(place: Path) -> None:
    kept = list((place.parent / "cache").glob("*.trace"))
    if not kept:
        raise Wrong("the first run leaves no cache entry")
    for entry in kept if (place / "entry.bin").exists() else ():
        entry.write_bytes((place / "entry.bin").read_bytes())


def _commanded(case: Case, arguments: list[str], place: Path, thorough: bool) -> str:
    code, out, told = _invoked(arguments)
    if code == 70:
        return f"DEFECT {named(told)}"
    check_text(out + told)
    if code in (2, 3):
        return _refused(case, code, told)
    if code not in ((0, 1) if case.kind in _JUDGED else (0,)):
        return f"DEFECT exit code {code}"
    if "--json" in arguments:
        check_diagnosis(out, thorough) if arguments[0] == "analyze" else check_answer(arguments[0], out)
    for page in (place / "out").rglob("*.*"):
        own = page.suffix == ".csv" and arguments[0] != "fit"  # a user's table keeps what he wrote into it
        if page.suffix in (".html", ".md") or own:
            check_text(page.read_text(encoding="utf-8"))
    return "read"


def _refused(case: Case, code: int, told: str) -> str:
    names_a_part = not _NAMES_A_PART.isdisjoint(case.arguments)
    if code == 2 and case.kind not in _USAGE and not names_a_part:
        raise Wrong("a usage error, though the command is right")
    if "out of memory" in told:
        raise Wrong("out of memory")
    if case.arguments[0] == "run":
        raise Wrong("a setting stops the job")
    if not told.strip():
        raise Wrong("refused without a word")
    return "refused"


def _invoked(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command, run in this process."""
    out, told = _streams()
    _text(out), _text(told)  # a try that hung has left its own
    code: Any = 0
    wrong: list[Wrong] = []
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(told), warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with mock.patch.object(Answer, "to_json", _finite(Answer.to_json, wrong)):
            try:
                main.main(arguments, prog_name="diagnose")
            except SystemExit as error:
                code = error.code
    texts = _text(out), _text(told)
    if wrong:
        raise wrong[0]
    return code, *texts


def _finite(to_json: Callable[[Any], str], wrong: list[Wrong]) -> Callable[[Any], str]:
    def checked(record: Any) -> str:
        try:
            check_finite(record)
        except Wrong as error:
            wrong.append(error)
        return to_json(record)

    return checked


@cache
def _streams() -> tuple[io.TextIOWrapper, io.TextIOWrapper]:
    """What stands for stdout and stderr in all tries: click keeps every stream that it ever wrote to."""
    return tuple(io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))  # type: ignore[return-value]


def _text(stream: io.TextIOWrapper) -> str:
    """What was written since the last call."""
    stream.flush()
    stream.seek(0)
    text = stream.buffer.read().decode("utf-8", "replace")
    stream.seek(0)
    stream.truncate()
    return text


@contextlib.contextmanager
def _home(folder: Path) -> Iterator[None]:
    """A cache and promises of the try's own, and no net under a metric, a rule or a section that fails."""
    shutil.rmtree(folder / "cache", ignore_errors=True)
    changed = {"DIAGNOSE_CACHE_DIR": str(folder / "cache"), "DIAGNOSE_TRACEBACK": "1", "DIAGNOSE_DEFECTS": "raise"}
    changed |= {"DIAGNOSE_DATA_DIR": str(folder / "case" / "data"), "DIAGNOSE_LEDGER": "on"}
    with mock.patch.dict(os.environ, changed), contextlib.chdir(folder):
        yield


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Rich has a width, whatever the terminal is."""
    with mock.patch.dict(os.environ, {"COLUMNS": "100"}):
        yield


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """An alarm ends what hangs."""

    def ring(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANGS_AFTER_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
