"""Rates that a user measured: what is read of them, where they stand in the place of a table, and where they do not."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from read_once import diagnosis_of

from diagnose import analysis
from diagnose.cli.measured_machines import NAME, keep, measured_machines
from diagnose.commands.doctor.measured_text import render_measured
from diagnose.commands.doctor.measuring import measured, products_of
from diagnose.commands.fit.diagnosed_rates import calibrated
from diagnose.commands.fit.stacks import stack_of
from diagnose.errors import UserError
from diagnose.formulas.named_models import named_model
from diagnose.hardware import resolve
from diagnose.hardware.measured import MeasuredMachine, machine_in, machines_in
from diagnose.report.views.words import mfu_details

H100 = {"name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85_018_279_936, "numSms": 132}
SAMPLE = Path(__file__).parent.parent / "sample_traces" / "h200-llama-eager.json.gz"


def told(**more: Any) -> dict[str, Any]:
    rates = [
        {"name": "square", "on": "cuda", "unit": "flops_per_s", "value": 6e14, "precision": "bf16", "size": [4096] * 3},
        {"name": "head", "on": "cuda", "unit": "flops_per_s", "value": 4e14, "precision": "bf16", "size": [4096] * 3},
        {"name": "square", "on": "cpu", "unit": "flops_per_s", "value": 9e14, "precision": "bf16", "size": [512] * 3},
        {"name": "memory copy", "on": "cuda", "unit": "bytes_per_s", "value": 2.5e12},
        {"name": "pinned to device", "on": "cuda", "unit": "bytes_per_s", "value": 5e10},
    ]
    of = {"at": "2026-11-01", "host": "n1", "device": H100["name"], "memory_bytes": H100["totalGlobalMem"]}
    return {"schema_version": 1, **of, "torch": "2.13", "threads": 8, "model": "", "rates": rates} | more


def machine(**more: Any) -> MeasuredMachine:
    found = machine_in(told(**more))
    assert found is not None
    return found


def test_measured_rates_stand_in_the_place_of_what_such_boards_reach_and_never_of_peaks() -> None:
    found, listed = resolve(H100, measured=[machine()]), resolve(H100)

    assert (found.achievable_matrix_flops, found.measured_flops) == (6e14, 6e14)
    assert found.achievable_matrix_flops_source == (
        "best bf16 matrix product measured on n1 on 2026-11-01 (diagnose doctor --measure)"
    )
    assert found.achievable_hbm_bytes_per_s == 2.5e12
    assert (found.matrix_peak, found.hbm_bytes_per_s) == (listed.matrix_peak, listed.hbm_bytes_per_s)
    assert listed.measured_flops is None


@pytest.mark.parametrize("other", [{"device": "NVIDIA H200"}, {"memory_bytes": 68_100_000_000}])
def test_those_of_another_gpu_are_left_alone(other: dict[str, Any]) -> None:
    assert resolve(H100, measured=[machine(**other)]) == resolve(H100)


def test_the_newest_of_such_gpus_counts_and_a_stated_peak_leaves_products_alone() -> None:
    newer = told(at="2026-11-02", host="n2")
    newer["rates"] = [newer["rates"][1]]
    both = [machine(), machine_in(newer)]

    assert resolve(H100, measured=both).measured_flops == 4e14  # type: ignore[arg-type]
    assert resolve(H100, measured=both, peak_tflops=500).measured_flops is None  # type: ignore[arg-type]


def test_mfu_of_what_the_card_reaches_stands_beside_that_of_the_data_sheet() -> None:
    plain = diagnosis_of(SAMPLE).mfu
    of = {"device": "NVIDIA H200", "memory_bytes": 150_109_880_320}
    found = analysis.analyze(SAMPLE, options=analysis.Options(measured=(machine(**of),))).mfu

    assert plain.reached_value is None
    assert (found.value, found.peak_flops) == (plain.value, plain.peak_flops)
    assert plain.value is not None
    assert plain.peak_flops is not None
    assert found.reached_value == pytest.approx(plain.value * plain.peak_flops / 6e14)
    assert any("of what this GPU reaches (600 TFLOP/s, measured) 37.3 %" in line for line in mfu_details(found))


@pytest.mark.parametrize(
    "damaged",
    [
        {"schema_version": 2},
        {"rates": [{"name": "x", "on": "tpu", "unit": "flops_per_s"}]},
        {"rates": [{"name": "x", "on": "cuda", "unit": "flops_per_s", "value": -1.0}]},
        {"rates": [{"name": "x", "on": "cuda", "unit": "flops_per_s", "size": [1, 2]}]},
        {"host": "a\x1b[2Jb"},
        {"memory_bytes": -1},
    ],
)
def test_a_damaged_machine_is_left_out_and_others_are_read(damaged: dict[str, Any]) -> None:
    content = json.dumps([told(**damaged), told()]).encode()

    assert machines_in(content) == (machine(),)
    assert machines_in(content[:-20]) == ()


def test_a_measurement_is_kept_beside_the_track_record_unless_that_is_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIAGNOSE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DIAGNOSE_LEDGER", "off")
    assert keep(machine()) == "DIAGNOSE_LEDGER is 'off'"
    assert not (tmp_path / "data").exists()

    monkeypatch.setenv("DIAGNOSE_LEDGER", "on")
    for at in ("2026-11-01", "2026-11-03"):
        assert keep(machine(at=at)) == ""
    assert keep(machine(host="n2")) == ""
    assert [(one.host, one.at) for one in measured_machines()] == [("n1", "2026-11-03"), ("n2", "2026-11-01")]
    assert (tmp_path / "data" / NAME).stat().st_mode & 0o777 == 0o600
    (tmp_path / "data" / NAME).chmod(0o666)
    assert measured_machines() == ()
    monkeypatch.setenv("DIAGNOSE_LEDGER", "off")
    assert measured_machines() == ()


def test_fit_takes_the_share_of_the_peak_that_was_measured(tmp_path: Path) -> None:
    stack, file = stack_of("transformers"), tmp_path / "measured.json"

    def shares(**more: Any) -> tuple[float, float]:
        file.write_text(json.dumps({"checks": [], "measured": msgspec.to_builtins(machine(**more))}))
        made = calibrated(stack, file)
        return made.matrix_share, made.matrix_half_width

    assert shares() == (pytest.approx(600 / 989.4, rel=1e-3), stack.matrix_half_width)
    assert shares(model="Llama-3.2-1B") == (pytest.approx(480 / 989.4, rel=1e-3), 0)
    with pytest.raises(UserError, match="no rate of a GPU was measured"):
        shares(device="")


def test_the_products_of_a_model_are_those_of_its_matrices() -> None:
    _, llama = named_model("Llama-3.2-1B") or ("", None)
    assert llama is not None
    weights = sum(n * k for name, _, n, k in products_of(llama, "cuda") if name != "head")

    assert weights == llama.attention_weights + 2 * llama.hidden * llama.ffn
    assert {m for _, m, _, _ in products_of(llama, "cuda")} == {4096}


@pytest.mark.capture
@pytest.mark.long
def test_this_machine_is_measured_and_a_gpu_that_is_not_there_is_unknown_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    from diagnose.cli.terminal import terminal

    monkeypatch.setattr("diagnose.commands.doctor.measuring._SQUARES", {"cuda": (256,), "cpu": (64,)})
    found = measured("", None, tmp_path, {**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    of_cpu = {rate.name.split(" of ")[0]: rate.value for rate in found.rates if rate.on == "cpu"}
    console = terminal()
    with console.capture() as printed:
        render_measured(found, "", console)

    assert of_cpu.keys() == {"square", "memory copy", "memory read", "all-reduce", "disk write", "disk read"}
    assert all(value is not None and value > 0 for value in of_cpu.values())
    assert {rate.because for rate in found.rates if rate.on == "cuda"} == {"torch sees no GPU here"}
    assert "GPU, products: unknown, because torch sees no GPU here" in " ".join(printed.get().split())
    assert list(tmp_path.iterdir()) == []
