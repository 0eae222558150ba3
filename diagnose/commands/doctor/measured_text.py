"""Print measured rates as text."""

from rich.console import Console

from diagnose.facts import spoken
from diagnose.hardware import Gpu, lookup
from diagnose.hardware.measured import MeasuredMachine, MeasuredRate
from diagnose.report.text.head import print_head
from diagnose.report.text.page import Page
from diagnose.report.views.first_screen import ScreenLine
from diagnose.report.views.plain import plain

_LABELS = ("products", "memory", "copies", "all-reduce", "disk", "the rest")
_PLACES = {"cuda": "GPU", "cpu": "CPU"}


def render_measured(machine: MeasuredMachine, not_kept: str, console: Console) -> None:
    """The part of its data sheet that the GPU reaches, and each rate; `not_kept` is why it is not kept, "" if it is."""
    board = lookup({"name": machine.device, "totalGlobalMem": machine.memory_bytes}) if machine.device else None
    kept = f"not kept: {not_kept}" if not_kept else "kept for MFU, rooflines and fit --calibrate of this GPU"
    follows = "" if not machine.device else kept
    print_head(
        console, [ScreenLine("result", plain(_result(machine, board))), ScreenLine("next", plain(follows))], "bold"
    )
    page = Page(console)
    before = ""
    for rate in sorted(machine.rates, key=lambda one: _LABELS.index(_label(one))):
        label = _label(rate)
        page.paragraph(plain(_words(rate, board)), label="" if label == before else label)
        before = label


def _label(rate: MeasuredRate) -> str:
    if rate.unit == "flops_per_s":
        return "products"
    return next((label for label in _LABELS if rate.name.startswith(label)), "copies")


def _result(machine: MeasuredMachine, board: Gpu | None) -> str:
    best = machine.best("flops_per_s", "bf16")
    if not machine.device:
        return f"rates of this host ({machine.threads} threads); those of a GPU are unknown, because torch sees none"
    if best is None:
        return f"{machine.device}: no product in bf16 could be measured"
    listed = board.bf16_tflops if board else None
    of = f", {best / listed / 1e10:.1f} % of the {listed:,.1f} TFLOP/s of its data sheet" if listed else ""
    return f"{machine.device} reaches {spoken(best, 'flops_per_s')} in bf16{of}"


def _words(rate: MeasuredRate, board: Gpu | None) -> str:
    size = f" ({' x '.join(f'{side:,}' for side in rate.size)})" if rate.size else ""
    precision = f", {rate.precision}" if rate.precision else ""
    what = f"{_PLACES[rate.on]}, {rate.name}{size}{precision}"
    if rate.value is None:
        return f"{what}: unknown, because {rate.because}"
    listed = board.tflops(rate.precision) if board and rate.on == "cuda" and rate.precision else None
    of = f", {rate.value / listed / 1e10:.1f} % of the data sheet" if listed else ""
    return f"{what}: {spoken(rate.value, rate.unit)}{of}"
