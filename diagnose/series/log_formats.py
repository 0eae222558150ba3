"""Formats of step lines in the logs of training loops: one row of the table for each.

Patterns are bounded and begin with fixed words, so that a line costs time in proportion to its length, whatever it
contains.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime

_INTEGER = r"(\d{1,15})"
_DECIMAL = r"(\d{1,12}(?:\.\d{0,12})?(?:[eE][+-]?\d{1,3})?)"


@dataclass(frozen=True)
class LineFormat:
    """A form of a line of steps.

    Attributes:
        name: the program that writes it.
        marks: texts that have to be in the line, in lower case; a cheap test before the patterns.
        step: its first group is the count of steps.
        duration: its first group is the time of one step; a second group, if there is one, its unit.
        unit: unit of the duration if no group states it.
        counts_steps: whether its count is known to be one of steps; a loop of one's own may count samples.
    """

    name: str
    marks: tuple[str, ...]
    step: re.Pattern[str]
    duration: re.Pattern[str] | None = None
    unit: str = "s"
    counts_steps: bool = True


FORMATS = (
    LineFormat(
        "Megatron-LM",
        ("elapsed time per iteration",),
        re.compile(rf"\biteration {{1,20}}{_INTEGER} {{0,20}}/ {{0,20}}\d{{1,15}} {{0,3}}\|"),
        re.compile(rf"elapsed time per iteration \(ms\): {{0,9}}{_DECIMAL}"),
        "ms",
    ),
    LineFormat(
        "NeMo",
        ("global_step", "train_step_timing"),
        re.compile(rf"\bglobal_step[=:] {{0,3}}{_DECIMAL}"),
        re.compile(rf"train_step_timing in s[=:] {{0,3}}{_DECIMAL}"),
    ),
    LineFormat("NeMo", ("global_step", "reduced_train_loss"), re.compile(rf"\bglobal_step[=:] {{0,3}}{_DECIMAL}")),
    LineFormat(
        "DeepSpeed",
        ("iter time (s)",),
        re.compile(rf"\bsteps: {_INTEGER} loss:"),
        re.compile(rf"iter time \(s\): {{0,3}}{_DECIMAL}"),
    ),
    LineFormat("DeepSpeed", ("skipped=",), re.compile(rf"\bstep={_INTEGER}, skipped=")),
    LineFormat(
        "DeepSpeed", ("samplespersec",), re.compile(rf"(?:global_step=| \d{{1,9}}/){_INTEGER}, \w{{0,16}}SamplesPerSec")
    ),
    LineFormat("torchtitan", ("step:", "loss:"), re.compile(rf"\bstep: {{0,8}}{_INTEGER} {{1,8}}loss:")),
    LineFormat(
        "lines with step and loss",
        ("loss",),
        re.compile(rf"(?i:\b(?:global[_ ]?)?(?:step|iter|iteration)s?)['\"]?\s{{0,3}}[:=#]?\s{{0,3}}{_INTEGER}\b"),
        re.compile(
            r"(?i:\b(?:(?:step|iter|batch)[_ ]time|time/(?:step|iter)|time[_ ]per[_ ](?:step|iter(?:ation)?)|dt))"
            rf"['\"]?(?:_s)?\s{{0,3}}[:=]?\s{{0,3}}{_DECIMAL}\s?(ms|us|s)?\b"
        ),
        counts_steps=False,
    ),
    LineFormat("a progress bar", ("/", "<", "["), re.compile(rf"\b{_INTEGER}/\d{{1,15}} \[\d{{1,4}}:\d\d(?::\d\d)?<")),
)
PROGRAMS = frozenset(one.name for one in FORMATS if one.counts_steps)

BATCH = re.compile(r"(?i:global[_ ]batch[_ ]size)['\"]?\s{0,3}[:=]\s{0,9}(\d{1,12})")
WORLD = re.compile(r"(?i:world[_ ]size)['\"]?\s{0,3}(?:[:=]|is)\s{0,9}(\d{1,7})")
_ANSI = re.compile(r"\x1b\[[0-9;:?]{0,40}[ -/]?[@-~]")
_RANK = re.compile(r"(?i:\[rank ?(\d{1,7})\])|\[default(\d{1,7})\]|\A\[\d{1,7},(\d{1,7})\]<std|\A *(\d{1,7}): ")
_YEAR_FIRST = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_YEAR_LAST = re.compile(r"\b(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_BAR = re.compile(r" \[(?:(\d{1,4}):)?(\d{1,4}):(\d\d)<")
_HEAD = 300  # characters in which a clock stands


def plain_line(line: str) -> str:
    """The line without the sequences that colour it."""
    return _ANSI.sub("", line) if "\x1b" in line else line


def rank_of(line: str) -> int | None:
    """The rank that a line begins with, or names in brackets."""
    found = _RANK.search(line[:200])
    return next((int(group) for group in found.groups() if group), None) if found else None


def clock_of(line: str) -> tuple[float, bool] | None:
    """The clock of a line in seconds, and whether it is a date; the time since the start of a progress bar is none."""
    head = line[:_HEAD]
    if found := _YEAR_FIRST.search(head):
        year, month, day, *time = found.groups()
    elif found := _YEAR_LAST.search(head):
        month, day, year, *time = found.groups()
    elif found := _BAR.search(line):
        hours, minutes, seconds = (int(group or 0) for group in found.groups())
        return hours * 3600.0 + minutes * 60 + seconds, False
    else:
        return None
    try:
        hour, minute, second = (int(part) for part in time[:3])
        moment = datetime(int(year), int(month), int(day), hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return moment.timestamp() + float(f"0.{time[3] or 0}"), True
