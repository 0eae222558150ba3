"""`--kernels N`: the longest kernels in the terminal's report."""

import io

import diagnoses
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from rich.cells import cell_len
from rich.console import Console

from diagnose.cli import main
from diagnose.diagnosis import Diagnosis, KernelRow
from diagnose.report.text import render

MS = 1_000_000


def kernel(name: str, ms: float, **changes: object) -> KernelRow:
    known = {"family": "gemm", "class_": "compute", "bound": "compute", "operator": "aten::mm", "above_roof_ns": None}
    figures = {"count": 45, "ns": round(ms * MS), "share": ms / 100, "mean_ns": 1}
    return KernelRow(**{"name": name} | known | figures | changes)  # type: ignore[arg-type]


def job() -> Diagnosis:
    hostile = kernel("[red]\x1b[31m\u202e" + "long" * 99, 3, bound="under-filled", operator="\x1b[2J", count=1234.5)
    rest = kernel("", 7, names=17, operator="", bound="unknown")
    return replace(diagnoses.diagnosis(), kernels=(kernel("void at::native::gemm<4>(int)", 12.7), hostile, rest))


def listed(diagnosis: Diagnosis, most: int, width: int = 120) -> list[str]:
    to = io.StringIO()
    render(diagnosis, Console(file=to, width=width), kernels=most)
    lines = to.getvalue().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("kernels "))
    return lines[start : lines.index("", start)]


def test_a_kernel_has_its_count_time_share_bound_and_operator() -> None:
    *_, first, rest = listed(job(), 1)

    assert first.split() == ["gemm<4>", "45", "12.7", "ms", "12.7", "%", "compute", "aten::mm"]
    assert rest.split() == ["+18", "names", "with", "10.0", "ms"]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_console_and_no_name_drives_it(width: int) -> None:
    lines = listed(job(), 20, width)

    assert max(cell_len(line) for line in lines) <= width
    assert not any("\x1b" in line or "\u202e" in line for line in lines)


def test_a_job_without_kernels_says_so() -> None:
    assert listed(diagnoses.undecided(), 5) == ["kernels       no GPU kernels in the counted steps"]


def test_the_option_adds_to_the_report_and_to_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("diagnose.analysis.analyze", lambda *_, **__: job())

    def run(*args: str) -> tuple[int, bool]:
        done = CliRunner().invoke(main, ["analyze", "run/", *args])
        return done.exit_code, "kernels  " in done.stdout

    assert run() == (0, False)
    assert run("--kernels", "5") == (0, True)
    assert run("--kernels", "5", "--json") == (2, False)
    assert run("--kernels", "0") == (2, False)
