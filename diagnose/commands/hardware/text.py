"""Devices as text: all in a table, or each in full."""

from collections.abc import Callable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from diagnose.commands.hardware.devices import device_of
from diagnose.hardware import PRECISIONS, Device, Gpu
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain

Cell = Callable[[Gpu, Device], str]

_COLUMNS: Mapping[str, Cell] = {
    "bf16\nfp16": lambda gpu, _: _number(gpu.matrix_tflops) + ("" if gpu.bf16_tflops else "*"),
    "\ntf32": lambda gpu, _: _number(gpu.tf32_tflops),
    "\nfp32": lambda gpu, _: _number(gpu.fp32_tflops),
    "\nfp8": lambda gpu, _: _number(gpu.fp8_tflops),
    "HBM\nGB/s": lambda gpu, _: _number(gpu.hbm_gbs),
    "ridge\nFLOP/B": lambda gpu, device: _number(device.ridge(gpu.matrix_dtype), 1),
    "links\nGB/s": lambda gpu, _: _number(gpu.nvlink_one_way_gbs),
    "\nconfidence": lambda gpu, _: gpu.confidence,
}
_LEFT_OUT_FIRST = ("links\nGB/s", "\nfp32", "\nfp8", "\ntf32", "\nconfidence")


def render_all(gpus: Sequence[Gpu], console: Console) -> None:
    """Print a line for each device; columns that do not fit are left out, and named."""
    page = Page(console)
    devices = [(gpu, device_of(gpu)) for gpu in gpus]
    left_out: list[str] = []
    while len(left_out) < len(_LEFT_OUT_FIRST) and _width(page, devices, left_out) > page.width:
        left_out.append(_LEFT_OUT_FIRST[len(left_out)])
    page.hanging("Dense TFLOP/s by precision (fp32 without tensor cores), links in one direction", 0)
    page.gap()
    page.console.print(_table(devices, left_out))
    page.gap()
    page.hanging("* fp16: no bf16 units.  low: peak unverified.  Ridge: bf16 (fp16) peak / HBM bandwidth.", 0)
    if left_out:
        names = ", ".join(header.split("\n")[0] or header.split("\n")[1] for header in left_out)
        page.hanging(f"Left out at this width: {names}. `diagnose hardware NAME` shows all of a device.", 0)


def _width(page: Page, devices: Sequence[tuple[Gpu, Device]], left_out: Sequence[str]) -> int:
    unbounded = page.console.options.update(width=1000)
    return page.console.measure(_table(devices, left_out), options=unbounded).minimum


def _table(devices: Sequence[tuple[Gpu, Device]], left_out: Sequence[str]) -> Table:
    shown = {header: cell for header, cell in _COLUMNS.items() if header not in left_out}
    made = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, collapse_padding=True)
    made.add_column("\ndevice", no_wrap=True, style="bold")
    for header in shown:
        made.add_column(header, no_wrap=True, justify="right")
    for gpu, device in devices:
        made.add_row(gpu.key, *(cell(gpu, device) for cell in shown.values()))
    return made


def render_each(gpus: Sequence[Gpu], console: Console) -> None:
    """Everything of each device."""
    page = Page(console)
    for i, gpu in enumerate(gpus):
        if i:
            page.gap()
        _detail(page, gpu, device_of(gpu))


def _detail(page: Page, gpu: Gpu, device: Device) -> None:
    page.line(Text.assemble((gpu.key, "bold"), (f"   {gpu.trust}", "dim")))
    page.paragraph(f"{' or '.join(plain(name) for name in gpu.names)}{' ...' if gpu.prefix else ''}", label="name:")
    page.paragraph(_board(gpu), label="board:")
    peaks = [f"{precision} {_number(gpu.tflops(precision))}" for precision in PRECISIONS if gpu.tflops(precision)]
    page.paragraph(f"{', '.join(peaks)} TFLOP/s, dense", label="peak:")
    page.paragraph(f"{_number(gpu.hbm_gbs)} GB/s", label="memory:")
    page.paragraph(
        f"{_number(device.ridge(gpu.matrix_dtype), 1)} FLOP/B: {gpu.matrix_dtype} peak / memory bandwidth",
        label="ridge:",
    )
    page.paragraph(_achievable(device), label="achievable:")
    links = f"{_number(gpu.nvlink_one_way_gbs)} GB/s in one direction, {_number(gpu.nvlink_gbs)} in both together"
    page.paragraph(links if gpu.nvlink_gbs else "none, or not known", label="links:")
    page.paragraph(plain(gpu.source), label="source:")
    if gpu.notes:
        page.paragraph(plain(gpu.notes), label="notes:")


def _board(gpu: Gpu) -> str:
    capability = f"{'' if gpu.is_amd else 'compute capability '}{gpu.compute_capability}"
    kind = f"{gpu.arch}, {capability}" if gpu.compute_capability else gpu.arch
    sms = f"{gpu.sms} multiprocessors{'' if gpu.sms_verified else ' (unverified)'}"
    return f"{kind}, {sms}, {' or '.join(f'{gb:.0f}' for gb in gpu.memory_gb)} GB, {_number(gpu.tdp_w)} W"


def _achievable(device: Device) -> str:
    products, memory = device.achievable_matrix_flops, device.achievable_hbm_bytes_per_s
    first = f"{products / 1e12:,.1f} TFLOP/s ({device.achievable_matrix_flops_source})" if products else ""
    second = f"{memory / 1e9:,.0f} GB/s ({device.achievable_hbm_bytes_per_s_source})" if memory else ""
    return f"{first or device.achievable_matrix_flops_source}; {second or device.achievable_hbm_bytes_per_s_source}"


def _number(value: float | None, digits: int | None = None) -> str:
    """The value as the table has it, "-" when there is none."""
    return "-" if value is None else f"{value:g}" if digits is None else f"{value:.{digits}f}"
