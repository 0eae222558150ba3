"""`analyze --critical-path`: what is printed of a path, and what is refused."""

import io
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from diagnose.cli import main
from diagnose.commands.hta.text import render_critical_path
from diagnose.errors import UserError

SAMPLE = Path(__file__).parents[2] / "sample_traces" / "synthetic-sync-every-step.json.gz"


def printed(width: int = 80, has_synchronisations: bool = True) -> str:
    """A path of two milliseconds, three quarters of it kernels."""
    from types import SimpleNamespace as Some

    path = Some(
        rank=3,
        step="ProfilerStep#12",
        step_ns=2_500_000,
        ns=2e6,
        categories=(
            Some(name="gpu_compute_bound", category="gpu_compute_bound", ns=1.5e6, count=9),
            Some(name="cpu_bound", category="cpu_bound", ns=0.5e6, count=12),
        ),
        names=(Some(name="gemm\x1b[31m" + "x" * 90, category="gpu_compute_bound", ns=1.5e6, count=9),),
        has_synchronisations=has_synchronisations,
    )
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    render_critical_path(path, console)  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_shares_are_of_the_path() -> None:
    lines = printed().splitlines()

    assert "2.0 ms in ProfilerStep#12 of rank 3, which takes 2.5 ms on the host" in lines[1]
    assert [line.split("%")[0].split()[-1] for line in lines if " ms  " in line] == ["75.0", "25.0", "75.0"]
    assert any("kernels and copies" in line for line in lines)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_lines_fit_and_names_are_harmless(width: int) -> None:
    text = printed(width)

    assert max(map(len, text.splitlines())) <= width
    assert "\x1b" not in text


def test_a_trace_without_synchronisation_events_is_said_to_be_less_sure() -> None:
    assert "may miss dependencies" in " ".join(printed(has_synchronisations=False).split())
    assert "may miss dependencies" not in " ".join(printed().split())


def test_without_the_extra_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed() -> None:
        raise UserError("HolisticTraceAnalysis is not installed", do='pip install ".[hta]"')

    monkeypatch.setattr("diagnose.commands.hta.installed.require", not_installed)
    result = CliRunner().invoke(main, ["analyze", "no-such-trace.json", "--critical-path"])

    assert result.exit_code == 3
    assert 'pip install ".[hta]"' in result.output


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_it_is_a_section_of_the_report(option: str) -> None:
    assert CliRunner().invoke(main, ["analyze", str(SAMPLE), "--critical-path", option]).exit_code == 2


@pytest.mark.compat
@pytest.mark.filterwarnings("ignore")
def test_the_section_follows_the_report() -> None:
    pytest.importorskip("hta.trace_analysis", reason="needs HolisticTraceAnalysis, of the extra hta")
    result = CliRunner().invoke(main, ["analyze", str(SAMPLE), "--critical-path", "--rank", "0"])

    assert result.exit_code == 0, result.output
    assert result.output.index("verdict:") < result.output.index("critical:") < result.output.index("longest:")
