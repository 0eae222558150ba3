"""`diagnose hardware`: every device, one of them, and those whose name is near."""

import json

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.hardware import table


def hardware(*args: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["hardware", *args])


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_the_list_has_every_device_and_fits_the_terminal(columns: int) -> None:
    lines = hardware(columns=columns).stdout.splitlines()

    assert max(map(len, lines)) <= columns
    assert {gpu.key for gpu in table()} <= {line.split()[0] for line in lines if line}
    assert any("…" in line for line in lines) is False


def test_the_list_shows_the_whole_row_and_says_what_it_left_out() -> None:
    wide, narrow = hardware().stdout.splitlines(), hardware(columns=60).stdout
    [row] = [line.split() for line in wide if line.startswith("H100-64GB-MN5")]

    assert row == ["H100-64GB-MN5", "989.4", "494.7", "66.9", "1978.9", "1631", "606.6", "450", "medium"]
    assert "V100-PCIE           112*" in narrow
    assert "Left out at this width: links, fp32, fp8." in narrow


def test_a_name_shows_every_match_in_full() -> None:
    page = hardware("nvidia h100 p").stdout

    assert page.splitlines()[0] == "H100-PCIe-80GB   confidence high"
    assert "peak:       bf16 756, fp16 756, tf32 378, fp32 51.2, fp8 1513 TFLOP/s, dense" in page
    assert "links:      300 GB/s in one direction, 600 in both together" in page
    for label in ("name:", "board:", "memory:", "ridge:", "achievable:", "source:", "notes:"):
        assert f"\n{label}" in page
    assert len([line for line in hardware("H100").stdout.splitlines() if "confidence" in line]) == 5


def test_the_json_has_the_matches_with_units_and_nulls() -> None:
    [found] = json.loads(hardware("v100s", "--json").stdout)["devices"]

    assert (found["key"], found["bf16_dense_tflops"], found["fp16_dense_tflops"]) == ("V100S-PCIE", None, 130)
    assert found["achievable_hbm_gbs"] == pytest.approx(0.9 * 1134)
    assert len(json.loads(hardware("--json").stdout)["devices"]) == len(table())


def test_no_match_names_what_is_near() -> None:
    result = hardware("h100-sxm")
    missed = hardware("h100 sxm5 80gb")

    assert result.exit_code == 0
    assert (missed.exit_code, missed.stdout) == (2, "")
    assert "did you mean H100-SXM5-80GB" in missed.stderr
    assert "\x1b" not in hardware("\x1b[31m").stderr


def test_an_unknown_name_says_which_figures_to_state() -> None:
    answer = hardware("NVIDIA Z999")

    assert answer.exit_code == 2
    assert all(option in answer.stderr for option in ("--peak-tflops", "--hbm-gbs", "--flops-per-step"))
