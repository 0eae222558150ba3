"""The terminal report of `diagnose memory`: figures of each device, the peak by category and line, findings."""

from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console
from rich.text import Text

from diagnose.commands.memory.answer import DeviceMemory, Held, MemoryAnswer
from diagnose.commands.memory.views import Line, by_line, given_back, nothing_found
from diagnose.facts import spoken
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

_Row = TypeVar("_Row", Held, Line)
LINES_SHOWN = 6
LEAST_SHOWN = 0.001
CALLS_SHOWN = 4
PARTS_SHOWN = 8


def render(answer: MemoryAnswer, console: Console, details: bool = False) -> None:
    """Print `answer`. Nothing is judged here."""
    page = Page(console)
    for device in answer.devices:
        _print_device(page, device, details)
    for finding in answer.findings:
        page.paragraph(Text(f"{finding.name} (device {finding.device})", "bold yellow"), label="finding:")
        page.paragraph(plain(finding.says))
        page.paragraph(Text(plain(finding.do), "bold"))
    if not answer.findings:
        page.paragraph(Text(nothing_found(answer)), label="finding:")
    if answer.counted:
        parts = ", ".join(f"{part.name} {spoken(part.bytes, 'bytes')}" for part in answer.counted[:PARTS_SHOWN])
        page.paragraph(plain(f"of a rank, by its sizes: {parts}"), label="ledger:")
    elif answer.not_counted:
        page.paragraph(Text(plain(f"not counted: {answer.not_counted}"), "dim"), label="ledger:")
    _print_list(page, "next:", answer.next)
    _print_list(page, "unknown:", answer.unknown, "dim")
    page.paragraph(Text(plain(", ".join([answer.file, *answer.others[:3]])), "dim"), label="read:", most=3)


def _print_device(page: Page, device: DeviceMemory, details: bool) -> None:
    label = f"device {max(device.device, 0)}:"
    if not device.reserved_bytes and not device.actions:
        page.paragraph("the snapshot has no segments: what is in use and reserved is not known", label=label)
    else:
        _print_reserved(page, label, device)

    if device.private_pool_bytes:
        page.paragraph(
            f"in private pools, of CUDA graphs: {spoken(device.private_pool_bytes, 'bytes')} reserved, of which"
            f" {spoken(device.private_pool_free_bytes, 'bytes')} are free for their graphs alone"
        )
    if device.peak_bytes is not None:
        page.paragraph(
            f"{spoken(device.peak_bytes, 'bytes')} in use at most, in {counted(device.actions, 'recorded action')};"
            f" {given_back(device)}",
            label="peak:",
        )
        for i, row in enumerate(device.at_peak):
            page.paragraph(_amount(row, row.category), label="" if i else "of it:")
        _print_lines(page, "by line:", device.lines_at_peak, details)
        if device.out_of_memory is not None:
            _print_lines(page, "at OOM:", device.out_of_memory.alive, details)
    page.gap()


def _print_reserved(page: Page, label: str, device: DeviceMemory) -> None:
    page.paragraph(
        f"{spoken(device.allocated_bytes, 'bytes')} in use, {spoken(device.reserved_bytes, 'bytes')} reserved",
        label=label,
    )
    page.paragraph(
        f"free: {spoken(device.split_free_bytes, 'bytes')} in segments that are in use too,"
        f" {spoken(device.cached_bytes, 'bytes')} in segments that are wholly free; the largest piece"
        f" {spoken(device.largest_free_block_bytes, 'bytes')};"
        f" {spoken(device.rounding_bytes, 'bytes')} lost by rounding"
    )


def _print_lines(page: Page, label: str, held: Sequence[Held], details: bool) -> None:
    """Print each line of the user's code, and below it what it called if that is several."""
    lines = by_line(held)
    shown = lines if details else _large(lines)[:LINES_SHOWN]
    left = len(lines) - len(shown)
    for i, line in enumerate(shown):
        page.paragraph(_amount(line, line.name), label="" if i else label, most=3)
        parts = line.parts if details else _large(line.parts)[:CALLS_SHOWN]
        left += len(line.parts) - len(parts)
        for part in parts:
            page.paragraph(f"  {_amount(part, part.below or 'the line itself')}", most=2)
    if left:
        page.paragraph(Text(f"+{left} more: --details", "dim"))


def _large(rows: Sequence[_Row]) -> list[_Row]:
    return [row for row in rows if row.share >= LEAST_SHOWN]


def _amount(of: Held | Line, name: str) -> str:
    blocks = f" in {counted(of.blocks, 'block')}" if of.blocks else ""
    return plain(f"{spoken(of.share, 'share'):>7}  {spoken(of.bytes, 'bytes')}{blocks}: {name}")


def _print_list(page: Page, label: str, lines: Sequence[str], style: str = "") -> None:
    for i, line in enumerate(lines):
        page.paragraph(Text(plain(line), style), label="" if i else label)
