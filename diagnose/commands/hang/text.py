"""The terminal report of `diagnose hang`: the verdict, each fault with its calls and stacks, the ranks, what to do."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from diagnose.commands.hang.answer import CallOf, Fault, Hang
from diagnose.commands.hang.views import alike, call_line, head, parted, seen_without_dump, stack_of
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain
from diagnose.report.views.words import counted

RANKS_SHOWN = 16
FRAMES_SHOWN = 8
STACKS_SHOWN = 8
_COLOURS = {"hung": "bold red", "slow": "bold yellow", "nothing-open": "bold green", "unknown": "bold"}


def render(answer: Hang, console: Console, details: bool = False) -> None:
    """Print `answer`, with whole stacks for `details`. Nothing is judged here."""
    print_head(console, head(answer), _COLOURS[answer.verdict])
    page = Page(console)
    for fault in answer.faults:
        _print_fault(page, answer, fault, details)
    for whose, frames in seen_without_dump(answer)[: None if details else STACKS_SHOWN]:
        page.paragraph(f"{whose}, as py-spy saw it", label="is at")
        _print_stack(page, frames, details)
        page.gap()
    for i, fault in enumerate(answer.follow):
        page.paragraph(Text(plain(fault.says), "dim"), label="" if i else "follows")
    _print_ranks(page, answer, details)
    _print_list(page, "then", answer.next[1:])
    _print_list(page, "unknown", answer.unknown, "dim")
    _print_list(page, "not read", [f"{entry.file}: {entry.why}" for entry in answer.unread], "yellow")
    page.paragraph(Text(plain(answer.folder), "dim"), label="read", most=3)


def _print_fault(page: Page, answer: Hang, fault: Fault, details: bool) -> None:
    if fault.says != answer.headline or fault is not answer.faults[0]:
        page.paragraph(plain(fault.says), label="fault")
    for call in fault.calls:
        _print_call(page, "waits" if fault.kind == "missing-rank" else "calls", call, details)
    for call in fault.instead:
        _print_call(page, "last", call, details)
    seen = {state.rank: state.stack for state in answer.ranks if state.stack}
    for rank in fault.blamed:
        if rank in seen:
            page.paragraph(f"rank {rank}, as py-spy saw it", label="is at")
            _print_stack(page, seen[rank], details)
    if fault.parted_at is not None and fault.parted_at < fault.number:
        page.paragraph(parted(fault.parted_at), label="parted")
    page.gap()


def _print_call(page: Page, label: str, call: CallOf, details: bool) -> None:
    page.paragraph(plain(call_line(call)), label=label)
    _print_stack(page, stack_of(call, whole=details), details)


def _print_stack(page: Page, frames: Sequence[str], details: bool) -> None:
    shown = frames if details else frames[:FRAMES_SHOWN]
    for frame in shown:
        page.field("", Text(plain(frame), "dim"))
    if len(frames) > len(shown):
        page.field("", Text(f"+{counted(len(frames) - len(shown), 'frame')}: --details", "dim"))


def _print_ranks(page: Page, answer: Hang, details: bool) -> None:
    """A line for all ranks in the same state."""
    groups = alike(answer)
    shown = groups if details else groups[:RANKS_SHOWN]
    for i, (ranks, text) in enumerate(shown):
        page.paragraph(plain(f"{ranks}: {text}"), label="" if i else "ranks", most=2)
    if len(groups) > len(shown):
        page.paragraph(Text(f"+{len(groups) - len(shown)} more: --details", "dim"))
    page.gap()


def _print_list(page: Page, label: str, lines: Sequence[str], style: str = "") -> None:
    for i, line in enumerate(lines):
        page.paragraph(Text(plain(line), style), label="" if i else label)
