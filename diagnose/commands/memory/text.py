"""The terminal report of `diagnose memory`: figures of each device, the peak by category and line, findings."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from diagnose.commands.memory.answer import DeviceMemory, Held, MemoryAnswer
from diagnose.commands.memory.views import given_back, nothing_found, place
from diagnose.facts import spoken
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

LINES_SHOWN = 8
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
        _print_held(page, "of it:", device.at_peak, len(device.at_peak))
        _print_held(page, "by line:", device.lines_at_peak, len(device.lines_at_peak) if details else LINES_SHOWN)
        if device.out_of_memory is not None:
            alive = device.out_of_memory.alive
            _print_held(page, "at OOM:", alive, len(alive) if details else LINES_SHOWN)
    page.gap()


def _print_held(page: Page, label: str, rows: Sequence[Held], most: int) -> None:
    for i, row in enumerate(rows[:most]):
        name = f"{row.category} at {place(row)}" if place(row) else row.category
        blocks = f" in {counted(row.blocks, 'block')}" if row.blocks else ""
        text = f"{spoken(row.share, 'share'):>7}  {spoken(row.bytes, 'bytes')}{blocks}: {name}"
        page.paragraph(plain(text), label="" if i else label, most=2)
    if len(rows) > most:
        page.paragraph(Text(f"+{len(rows) - most} more: --details", "dim"))


def _print_list(page: Page, label: str, lines: Sequence[str], style: str = "") -> None:
    for i, line in enumerate(lines):
        page.paragraph(Text(plain(line), style), label="" if i else label)
