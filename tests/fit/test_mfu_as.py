"""MFU in the count of one project: published figures are found again by naming whose they are."""

import csv
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.commands.fit.boards import gpu_named
from diagnose.commands.fit.mfu_as import counted_flops_per_token, counted_peak_flops
from diagnose.formulas.mfu_conventions import MFU_AS
from diagnose.formulas.model_flops import flops_per_token
from diagnose.formulas.named_models import NAMED_MODELS, named_model
from diagnose.predict.memory.job import JobPlan
from tests.public_tables import public_table

LLAMA = NAMED_MODELS["Llama-3.1-8B"]
PLAYBOOK = "ultrascale_playbook_h100.csv"


@pytest.mark.parametrize(
    ("mfu_as", "gigaflops"),
    # 6 for each of 7.504e9 multiplied or 8.030e9 parameters, and 12 x 32 x 4096 for each of 8192 pairs, or half of them
    [("megatron", 51.47), ("nanotron", 61.07), ("llm-foundry", 61.07), ("palm", 57.91), ("hf", 45.03)],
)
def test_flops_of_a_token_of_llama_8b(mfu_as: str, gigaflops: float) -> None:
    assert flops_per_token(LLAMA, 8192, MFU_AS[mfu_as].flops) / 1e9 == pytest.approx(gigaflops, rel=1e-3)


def test_only_llm_foundry_divides_by_the_peak_of_fp8() -> None:
    plan = JobPlan("8b", LLAMA, gpu_named("H100"), fp8=True)
    peaks = {name: counted_peak_flops(plan, name) / 1e12 for name in MFU_AS}
    assert peaks.pop("llm-foundry") == 1978.9
    assert set(peaks.values()) == {989.4}


def stated(tmp_path, table: str, mfu_as: str) -> list[dict[str, str]]:
    out = tmp_path / "out.csv"
    args = ["fit", "--table", str(public_table(table)), "--out", str(out), "--stack", mfu_as, "--mfu-as", mfu_as]
    assert CliRunner().invoke(main, args).exit_code == 0
    return list(csv.DictReader(out.read_text().splitlines()))


def is_found(counted: float, printed: str, tokens_per_s: float, tolerance: float = 0.01) -> bool:
    """Within a percent, or within what the digits of a printed figure and of its throughput leave open."""
    digits = len(printed.partition(".")[2])
    open_share = 0.5 / tokens_per_s
    return abs(counted - float(printed)) <= max(tolerance * float(printed), 0.5 * 10**-digits + open_share * counted)


def test_mfu_of_every_row_of_llm_foundry(tmp_path) -> None:
    rows = stated(tmp_path, "llm_foundry_mpt.csv", "llm-foundry")
    assert len(rows) > 40
    assert [row for row in rows if not is_found(float(row["stated_mfu_percent"]), row["mfu"], 1e9)] == []


def test_mfu_of_every_row_of_the_playbook_but_those_of_another_model(tmp_path) -> None:
    """Some 80B rows are of a model with 8 key and value heads; a row in which tokens/s and MFU differ is of neither."""
    rows = stated(tmp_path, PLAYBOOK, "nanotron")
    full = NAMED_MODELS["ultrascale-80B"]
    grouped = flops_per_token(replace(full, kv_heads=8), 4096, "6n-attention")
    of_grouped = grouped / flops_per_token(full, 4096, "6n-attention")
    neither = []
    for row in rows:
        printed, tokens_per_s = row["mfu_percent"], float(row["tokens_per_s_per_gpu"])
        counted = float(row["stated_mfu_percent"])
        is_other = row["model"] == "80B" and is_found(counted * of_grouped, printed, tokens_per_s)
        if not is_found(counted, printed, tokens_per_s) and not is_other:
            neither.append((row["model"], printed))
    assert len(rows) > 250
    assert len(neither) <= 0.01 * len(rows), neither


def dense_llama_rows() -> list[tuple[str, dict[str, str], float, str]]:
    """Model, row, tokens/s and TFLOP/s of a GPU; a cell may hold two of each, the second in brackets."""
    found = []
    with public_table("megatron_bridge.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            model = re.search(r"LLAMA3(\.1)?_\d+B", row["section"] + row["model"])
            if model and "Pre-Training" in row["section"]:
                rates, flops = (re.findall(r"[\d.]+", row[name]) for name in ("tokens_sec_gpu", "model_tflop_sec_gpu"))
                found += [(model[0], row, float(r), f) for r, f in zip(rates, flops, strict=True)]
    return found


def test_tflops_of_megatron_s_dense_llama_rows() -> None:
    """The tokens/s of container 26.04.01 are multiples of 32, which leaves their last percents open."""
    rows = dense_llama_rows()
    far = []
    for name, row, tokens_per_s, printed in rows:
        shape = named_model(name)[1]
        counted = flops_per_token(shape, int(row["sequence_length"]), MFU_AS["megatron"].flops) * tokens_per_s / 1e12
        if abs(counted / float(printed) - 1) > 0.01:
            far.append((row["section"], tokens_per_s % 32, abs(counted / float(printed) - 1) * tokens_per_s))
    assert len(rows) > 15
    assert all("26.04.01" in section and rest == 0 and lost <= 16 for section, rest, lost in far), far


def test_a_pipeline_of_nanotron_unties_the_head_and_learned_positions_are_as_long_as_the_sequences(tmp_path) -> None:
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text(
        "model,gpu,gpus,micro_batch,pp,seq_len,stack,tokens_per_s_per_gpu\n"
        "1B,H100,8,1,1,4096,nanotron,1000\n1B,H100,8,1,2,4096,nanotron,1000\n"
        "7b,H100,8,1,1,65536,llm-foundry,1000\n8b,H100,8,1,1,4096,transformers,\n"
    )
    CliRunner().invoke(main, ["fit", "--table", str(table), "--out", str(out), "--mfu-as", "nanotron"])
    one, two, mpt, unstated = (row["stated_tflops_per_gpu"] for row in csv.DictReader(out.read_text().splitlines()))
    assert float(two) - float(one) == pytest.approx(6 * 131072 * 2048 * 1000 / 1e12, abs=0.01)
    tables = NAMED_MODELS["MPT-7b"].parameters + (65536 - 2048) * 4096
    assert float(mpt) == pytest.approx((6 * tables + 12 * 32 * 4096 * 65536) * 1000 / 1e12, abs=0.01)
    assert unstated == ""


def test_fit_states_mfu_in_the_count_that_is_named() -> None:
    args = ["fit", "--model", "8b", "--gpu", "H100", "--dp", "8", "--zero", "3", "--micro-batch", "1"]
    own = CliRunner().invoke(main, args).output
    megatron = CliRunner().invoke(main, [*args, "--mfu-as", "megatron"]).output
    assert "TFLOP/s as palm counts" in " ".join(own.split())
    assert "TFLOP/s as megatron counts" in " ".join(megatron.split())
    plan = JobPlan("8b", LLAMA, gpu_named("H100"), seq_len=2048)
    assert counted_flops_per_token(plan, "megatron") < counted_flops_per_token(plan, "palm")
