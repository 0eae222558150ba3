"""`diagnose hardware`: what every known GPU can do at most, and who says so."""

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches

import click
from rich.table import Table
from rich.text import Text

from diagnose.cli.command import Command
from diagnose.cli.exit_status import writing
from diagnose.cli.terminal import terminal
from diagnose.errors import WrongUsage
from diagnose.hardware import PRECISIONS, Device, Gpu, resolve, table
from diagnose.hardware.named import properties_of
from diagnose.report.text.page import Page
from diagnose.report.views.plain import plain

Cell = Callable[[Gpu, Device], str]


@click.command(cls=Command, epilog="Example:  diagnose hardware h100")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the devices as one JSON object on stdout.")
def hardware(name: str | None, as_json: bool) -> None:
    """List the known GPUs with their peaks, bandwidth and sources.

    NAME is a part of a key or of the name that torch reports, in any case; its matches are shown in full.
    """
    gpus = table() if name is None else _matching(name)
    with writing():
        if as_json:
            click.echo(json.dumps({"devices": [_as_json(gpu) for gpu in gpus]}))
        elif name is None:
            _list(Page(terminal()), gpus)
        else:
            _show(Page(terminal()), gpus)


def _matching(name: str) -> tuple[Gpu, ...]:
    wanted = name.casefold()
    gpus = tuple(gpu for gpu in table() if any(wanted in known.casefold() for known in (gpu.key, *gpu.names)))
    if not gpus:
        keys = {known.casefold(): gpu.key for gpu in table() for known in (gpu.key, *gpu.names)}
        near = dict.fromkeys(keys[close] for close in get_close_matches(wanted, keys, n=3, cutoff=0.4))
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise WrongUsage(
            "no known GPU has this in its name", where=name, do=f"{hint}`diagnose hardware` lists them all"
        )
    return gpus


def _device(gpu: Gpu) -> Device:
    """The device as a trace without a capture record would give it."""
    return resolve(properties_of(gpu))


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


def _list(page: Page, gpus: Sequence[Gpu]) -> None:
    """One line for each device; columns that do not fit are left out, and said to be."""
    devices = [(gpu, _device(gpu)) for gpu in gpus]
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


def _show(page: Page, gpus: Sequence[Gpu]) -> None:
    for i, gpu in enumerate(gpus):
        if i:
            page.gap()
        _detail(page, gpu, _device(gpu))


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
    kind = f"{gpu.arch}, {'' if gpu.is_amd else 'compute capability '}{gpu.compute_capability}"
    sms = f"{gpu.sms} multiprocessors{'' if gpu.sms_verified else ' (unverified)'}"
    return f"{kind}, {sms}, {' or '.join(f'{gb:.0f}' for gb in gpu.memory_gb)} GB, {_number(gpu.tdp_w)} W"


def _achievable(device: Device) -> str:
    products, memory = device.achievable_matrix_flops, device.achievable_hbm_bytes_per_s
    first = f"{products / 1e12:,.1f} TFLOP/s ({device.achievable_matrix_flops_source})" if products else ""
    second = f"{memory / 1e9:,.0f} GB/s ({device.achievable_hbm_bytes_per_s_source})" if memory else ""
    return f"{first or device.achievable_matrix_flops_source}; {second or device.achievable_hbm_bytes_per_s_source}"


def _as_json(gpu: Gpu) -> dict[str, object]:
    """Rates with their units in the names; null is unknown, or a unit the device lacks."""
    device = _device(gpu)
    products, memory = device.achievable_matrix_flops, device.achievable_hbm_bytes_per_s
    return {
        "key": gpu.key,
        "names": list(gpu.names),
        "names_are_prefixes": gpu.prefix,
        "architecture": gpu.arch,
        "compute_capability": gpu.compute_capability,
        "multiprocessors": gpu.sms,
        "memory_gb": list(gpu.memory_gb),
        **{f"{precision}_dense_tflops": gpu.tflops(precision) for precision in PRECISIONS},
        "hbm_gbs": gpu.hbm_gbs,
        "ridge_flops_per_byte": device.ridge(gpu.matrix_dtype),
        "nvlink_one_way_gbs": gpu.nvlink_one_way_gbs,
        "tdp_w": gpu.tdp_w,
        "achievable_matrix_tflops": None if products is None else products / 1e12,
        "achievable_matrix_source": device.achievable_matrix_flops_source,
        "achievable_hbm_gbs": None if memory is None else memory / 1e9,
        "achievable_hbm_source": device.achievable_hbm_bytes_per_s_source,
        "confidence": gpu.confidence,
        "source": gpu.source,
        "notes": gpu.notes,
    }


def _number(value: float | None, digits: int | None = None) -> str:
    """The value as the table has it, "-" when there is none."""
    return "-" if value is None else f"{value:g}" if digits is None else f"{value:.{digits}f}"
