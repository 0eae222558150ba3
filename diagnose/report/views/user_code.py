"""Views of lines of the user's code, for every report."""

from collections.abc import Sequence
from pathlib import PurePosixPath

import msgspec

from diagnose.diagnosis import CodeLine, Diagnosis, Finding, UserFunction
from diagnose.facts import spoken
from diagnose.report.views.breakdown import INVISIBLE
from diagnose.report.views.plain import plain

WORTH_A_CALL = 0.05
OUTSIDE = "<module>"  # how Python calls the code outside of functions


class FunctionView(msgspec.Struct, frozen=True):
    """One function as shown; `row` keeps the numbers that columns are sorted by, `in_file` leaves out the folders.

    `calls` is where most of its own time is, if that is worth a line.
    """

    row: UserFunction
    place: str
    in_file: str
    share: str
    total: str
    calls: str


class UserCodeView(msgspec.Struct, frozen=True):
    """The functions of the training thread by Python time, and the total that their shares refer to.

    `unknown` is the reason why there are none and what to capture, `other` the share outside the listed functions,
    `cost` the cost of the sampling.
    """

    functions: list[FunctionView]
    of: str
    other: str
    cost: str
    unknown: str


def user_code_view(diagnosis: Diagnosis) -> UserCodeView | None:
    """The section; None if nothing looked for lines."""
    code = diagnosis.user_code
    if code is None:
        return None
    sampling = (
        "" if code.cost_share is None else f"sampling took {spoken(code.cost_share, 'share')} of the sampled steps"
    )
    return UserCodeView(
        functions=list(map(_view, code.functions)),
        of=plain(code.of),
        other=spoken(code.other_share, "share") if (code.other_share or 0) >= INVISIBLE else "",
        cost=sampling,
        unknown=unknown_line(code.because, code.capture_next),
    )


def _view(row: UserFunction) -> FunctionView:
    place = placed(row.function, row.file, row.line)
    in_file = placed(row.function, PurePosixPath(row.file).name, row.line)
    worth = row.calls and row.calls_share >= WORTH_A_CALL
    calls = f"{plain(row.calls)} takes {spoken(row.calls_share, 'share')}" if worth else ""
    return FunctionView(row, place, in_file, spoken(row.share, "share"), spoken(row.total_share, "share"), calls)


def placed(function: str, file: str, line: int) -> str:
    """`collate (data.py:31)`; code outside of functions has its line alone."""
    where = f"{file}:{line}"
    return plain(where if function == OUTSIDE else f"{function} ({where})")


def where_line(where: Sequence[CodeLine]) -> str:
    """`collate (data.py:31) takes 62.0 %, main (train.py:12) 20.1 % of 214 samples of the training thread`, or ""."""
    if not where:
        return ""
    first, *others = ((placed(line.function, line.file, line.line), spoken(line.share, "share")) for line in where)
    told = [f"{first[0]} takes {first[1]}", *(f"{place} {share}" for place, share in others)]
    inside = "; ".join(filter(None, map(_inside, where)))
    return "; ".join(filter(None, (f"{', '.join(told)} of {plain(where[0].of)}", inside)))


def _inside(line: CodeLine) -> str:
    deeper = line.most_in
    of = plain(f"line {line.line}" if line.function == OUTSIDE else line.function)
    at = f"most of {of} in {placed(deeper.function, deeper.file, deeper.line)}" if deeper else ""
    called = f"{plain(line.calls)} below {of} takes {spoken(line.calls_share, 'share')}" if line.calls else ""
    return "; ".join(filter(None, (at, called)))


def no_line(finding: Finding) -> str:
    """The reason why a finding names no line though a capture looked for it, and what would name it; "" otherwise."""
    return unknown_line(finding.where_because, finding.where_capture_next)


def unknown_line(because: str, capture_next: str) -> str:
    """The reason and what to do as one sentence."""
    return plain("; ".join(filter(None, (because, capture_next))))
