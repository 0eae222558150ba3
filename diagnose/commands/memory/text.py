"""The terminal report of `diagnose memory`: figures of each device, the peak by category and line, findings."""

from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from diagnose.commands.memory.answer import DeviceMemory, Held, MemoryAnswer
from diagnose.commands.memory.views import (
    LEAST_SHOWN,
    Line,
    by_line,
    given_back,
    head,
    percent,
    sentences,
    short_size,
    shown_findings,
)
from diagnose.facts import spoken
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.one_unit import OneUnit, of_sizes
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

_Row = TypeVar("_Row", Held, Line)
LINES_SHOWN = 6
CALLS_SHOWN = 4
PARTS_SHOWN = 8


def render(answer: MemoryAnswer, console: Console, details: bool = False) -> None:
    """Print `answer`. Nothing is judged here."""
    print_head(console, head(answer), "bold yellow" if answer.findings else "bold")
    page = Page(console)
    _print_findings(page, answer)
    for device in answer.devices:
        _print_device(page, device, details)
    if answer.counted:
        parts = ", ".join(f"{part.name} {spoken(part.bytes, 'bytes')}" for part in answer.counted[:PARTS_SHOWN])
        page.paragraph(plain(f"a rank needs, by its sizes: {parts}"), label="expected")
    elif answer.not_counted:
        page.paragraph(Text(plain(f"not computed: {answer.not_counted}"), "dim"), label="expected")
    _print_list(page, "next", answer.next if answer.findings else [sentences(line)[1] for line in answer.next])
    _print_list(page, "unknown", answer.unknown, "dim")
    page.paragraph(Text(plain(", ".join([answer.file, *answer.others[:3]])), "dim"), label="read", most=3)


def _print_findings(page: Page, answer: MemoryAnswer) -> None:
    """Print what the verdict leaves: the rest of the first finding, and all others."""
    found = shown_findings(answer)
    for finding in found[:1]:
        for text in (sentences(finding.says)[1], sentences(finding.do)[1]):
            if text:
                page.paragraph(plain(text), label="also")
    for finding in found[1:]:
        page.paragraph(Text(plain(finding.says), "yellow"), label="also")
        page.paragraph(Text(plain(finding.do), "bold"))
    if any(sentences(finding.do)[1] for finding in found[:1]) or found[1:]:
        page.gap()


def _print_device(page: Page, device: DeviceMemory, details: bool) -> None:
    label = f"device {max(device.device, 0)}"
    if not device.reserved_bytes and not device.actions:
        page.paragraph("the snapshot has no segments, so memory in use and reserved is unknown", label=label)
    else:
        page.paragraph(_reserved(device), label=label)
    if device.private_pool_bytes:
        page.paragraph(
            f"private pools of CUDA graphs: {spoken(device.private_pool_bytes, 'bytes')} reserved, of which"
            f" {spoken(device.private_pool_free_bytes, 'bytes')} are free for their graphs alone"
        )
    if device.peak_bytes is not None:
        page.paragraph(f"in {counted(device.actions, 'recorded action')}, {given_back(device)}")
        _print_lines(page, "at the peak", device.lines_at_peak, details)
        if device.out_of_memory is not None:
            _print_lines(page, "when memory ran out", device.out_of_memory.alive, details)
    page.gap()


def _reserved(device: DeviceMemory) -> str:
    """Memory in use at the time of the snapshot, and how the rest lies."""
    free = [
        (device.split_free_bytes, "free between blocks in use"),
        (device.cached_bytes, "free in whole segments"),
        (device.largest_free_block_bytes, "in the largest free piece"),
        (device.rounding_bytes, "lost by rounding"),
    ]
    parts = [f"{short_size(value)} {what}" for value, what in free if value]
    used = f"{short_size(device.allocated_bytes)} of {short_size(device.reserved_bytes)} reserved are in use"
    return f"at the snapshot {'; '.join([used, *parts])}"


def _print_lines(page: Page, when: str, held: Sequence[Held], details: bool) -> None:
    """Print a row for each line of the user's code, and below it what it called if that is several."""
    lines = by_line(held)
    if not lines:
        return
    shown = lines if details else _large(lines)[:LINES_SHOWN]
    left, unit = len(lines) - len(shown), of_sizes([line.bytes for line in lines])
    page.gap()
    _row(page, ("in use", "share", "blocks", when), "bold")
    for line in shown:
        _row(page, (*_cells(line, unit), line.name))
        parts = line.parts if details else _large(line.parts)[:CALLS_SHOWN]
        left += len(line.parts) - len(parts)
        for part in parts:
            _row(page, (*_cells(part, unit), f"- {part.below or 'the line itself'}"), "dim")
    if left:
        page.paragraph(Text(f"+{left} more: --details", "dim"))


def _cells(of: Held | Line, unit: OneUnit) -> tuple[str, str, str]:
    return unit.cell(of.bytes), percent(of), f"{of.blocks:,}" if of.blocks else ""


def _row(page: Page, cells: tuple[str, str, str, str], style: str = "") -> None:
    """Print a row, its name wrapped beside the figures."""
    size, part, blocks, name = cells
    left = f"{size:>10}{part:>7}{blocks:>8}  "
    for text in page.wrapped(Text(plain(name), style), page.width - len(left)):
        page.line(Text.assemble((left, style), text))
        left = " " * len(left)


def _large(rows: Sequence[_Row]) -> list[_Row]:
    return [row for row in rows if row.share >= LEAST_SHOWN]


def _print_list(page: Page, label: str, lines: Sequence[str], style: str = "") -> None:
    for i, line in enumerate(filter(None, lines)):
        page.paragraph(Text(plain(line), style), label="" if i else label)
