"""Tables of runs: columns of other projects, those that nobody knows, and what is added to each row."""

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.commands.fit.columns import known_cells
from diagnose.commands.fit.models import model_from
from diagnose.commands.fit.table import plan_of
from diagnose.predict.memory.job import JobPlan
from tests.public_tables import public_table

PLAIN = "model,gpu,gpus,micro_batch,seq_len\n1b,H100,8,4,1024\n"


def predicted(tmp_path: Path, text: str, *args: str) -> tuple[Result, list[dict[str, str]]]:
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text(text)
    done = CliRunner().invoke(main, ["fit", "--table", str(table), "--out", str(out), *args])
    return done, list(csv.DictReader(out.read_text().splitlines())) if out.exists() else []


def plan(stack: str = "transformers", **cells: str) -> JobPlan:
    row = {"model": "1b", "gpu": "H100", "gpus": "8", "micro_batch": "4"} | cells
    return plan_of(row, stack, lambda name: model_from(name)[1])


def test_each_row_gets_ranges_and_what_they_rest_on(tmp_path) -> None:
    _, (row,) = predicted(tmp_path, PLAIN)
    low, likely, high = (float(row[f"predicted_step_s_{end}"]) for end in ("low", "likely", "high"))
    assert low < likely < high
    assert likely * float(row["predicted_tokens_per_s_per_gpu"]) == pytest.approx(4 * 1024, rel=0.01)
    low, likely, high = (float(row[f"predicted_memory_gb{end}"]) for end in ("_low", "", "_high"))
    assert low <= likely <= high
    assert row["fits"] in ("yes", "tight", "no")
    assert "step " in row["because"]
    assert "memory " in row["because"]


def test_a_column_that_nobody_knows_is_named(tmp_path) -> None:
    text = PLAIN.replace("seq_len", "seqlens").replace("gpus,", "gpus,colour,", 1).replace("8,4", "8,red,4")
    done, rows = predicted(tmp_path, text)
    assert done.exit_code == 3
    assert "columns that are not known: colour, seqlens" in done.stderr
    assert "seqlens may be seq_len" in done.stderr
    assert rows == []


def test_unknown_columns_can_be_left_alone(tmp_path) -> None:
    done, (row,) = predicted(tmp_path, PLAIN.replace("seq_len", "colour").replace("1024", "red"), "--ignore-columns")
    assert done.exit_code == 0
    assert row["colour"] == "red"
    assert row["fits"]


def test_options_fill_what_the_table_does_not_state(tmp_path) -> None:
    done, (row,) = predicted(tmp_path, "model,micro_batch\n1b,4\n", "--gpu", "A100", "--gpus", "8", "--dtype", "bf16")
    assert done.exit_code == 0
    assert row["fits"]


@pytest.mark.parametrize(
    ("cells", "stack", "is_told"),
    [
        ({"model_precision": "fp32", "mixed_precision": "bf16"}, "transformers", {"dtype": "bf16-mixed"}),
        ({"model_precision": "bf16", "mixed_precision": "bf16"}, "transformers", {"dtype": "bf16"}),
        ({"model_precision": "fp32", "mixed_precision": "no", "tf32": "yes"}, "transformers", {"dtype": "tf32"}),
        ({"precision": "amp_fp8"}, "llm-foundry", {"dtype": "bf16-mixed", "fp8": True}),
        ({"precision": "FP8-MX"}, "megatron", {"dtype": "bf16-master-fp32-grads", "fp8": True}),
        ({"gpu": "V100"}, "transformers", {"dtype": "fp16-mixed"}),
        ({"gpu": "", "system": "DGX-GB200", "gpus": "64"}, "megatron", {"nodes": 1}),
        ({"activation_checkpointing": "True"}, "llm-foundry", {"checkpointing": "full"}),
        ({"activation_checkpointing": "Selective AC"}, "torchtitan", {"checkpointing": "selective"}),
        ({"activation_checkpointing": "No AC"}, "torchtitan", {"checkpointing": "none"}),
        ({"attn_implementation": "flash_attention_2"}, "transformers", {"attention": "flash"}),
        ({"batch_size": "2", "micro_batch": ""}, "transformers", {"micro_batch": 2}),
    ],
)
def test_words_of_other_tables_mean_the_job_that_ran(cells: dict[str, str], stack: str, is_told: dict) -> None:
    made = plan(stack, **cells)
    assert {name: getattr(made, name) for name in is_told} == is_told


@pytest.mark.parametrize(
    ("cells", "zero", "shards"),
    [
        ({"sharding_strategy": "FULL_SHARD"}, 3, 16),
        ({"sharding_strategy": "SHARD_GRAD_OP"}, 2, 16),
        ({"sharding": "HSDP"}, 3, 8),
        ({"sharding": "DDP"}, 0, 16),
        ({"fsdp": "16"}, 3, 16),
        ({"fsdp": "0"}, 1, 16),
        ({"zero": "1"}, 1, 16),
    ],
)
def test_names_of_sharding_are_zero_stages(cells: dict[str, str], zero: int, shards: int) -> None:
    sharding = plan(gpus="16", nodes="2", **cells).sharding
    assert (sharding.zero, sharding.shards) == (zero, shards)


def test_a_heading_states_what_no_column_does() -> None:
    section = (
        "Table 4 2D parallelism (FSDP + TP) + torch.compile + Float8. Llama 3.1 70B model. 256 GPUs (FSDP 32, TP 8)."
    )
    section += " Local batch size 16, global batch size 512. Full activation checkpointing."
    cells = known_cells({"section": section, "source_repo": "pytorch/torchtitan", "source_path": "llama3_h100.md"})
    told = {"model": "Llama-3.1-70B", "gpus": "256", "tp": "8", "micro_batch": "16", "global_batch": "512"}
    told |= {"compile": "yes", "fp8": "yes", "checkpointing": "full", "zero": "3", "stack": "torchtitan"}
    assert {name: cells.get(name) for name in told} == told


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("precision", "NVFP4", "4-bit training is not predicted: NVFP4"),
        ("activation_cpuoffload", "True", "offloading to the host is not predicted"),
        ("checkpointing", "selective", "--checkpointing selective cannot be used here"),
    ],
)
def test_a_row_of_what_is_not_predicted_says_so(tmp_path, column: str, value: str, said: str) -> None:
    lines = PLAIN.splitlines()
    done, rows = predicted(tmp_path, f"{lines[0]},{column}\n{lines[1]},\n{lines[1]},{value}\n")
    assert f"line 3 is not predicted: {said}" in done.stderr
    assert [bool(row["fits"]) for row in rows] == [True, False]


def test_a_switch_that_did_nothing_is_predicted_as_off(tmp_path) -> None:
    text = "model,gpu,gpus,micro_batch,seq_len,liger\nopt-1.3b,H100,1,4,1024,no\nopt-1.3b,H100,1,4,1024,yes\n"
    _, (off, on) = predicted(tmp_path, text)
    assert on["predicted_step_s_likely"] == off["predicted_step_s_likely"]
    assert "predicted without liger: Liger has no kernels for the model type opt" in on["because"]


def test_of_two_runs_in_a_row_the_first_is_predicted(tmp_path) -> None:
    text = "model,gpu,gpus,micro_batch,seq_len,tp,stack\n8b,H100,8,1,8192,2 (4),megatron\n8b,H100,8,1,8192,2,megatron\n"
    _, (two, one) = predicted(tmp_path, text)
    assert two["predicted_step_s_likely"] == one["predicted_step_s_likely"]
    assert "the first of the two runs that the row states" in two["because"]


@pytest.mark.parametrize(
    ("name", "args", "most_unpredicted"),
    [
        ("llm_foundry_mpt.csv", ("--stack", "llm-foundry"), 0),
        pytest.param("ultrascale_playbook_h100.csv", (), 0, marks=pytest.mark.long),
        ("torchtitan.csv", (), 2),
        ("fms_fsdp.csv", ("--gpu", "A100-SXM4-80GB", "--gpus", "128", "--seq-len", "4096"), 0),
        ("nemo_automodel.csv", (), 3),
        ("megatron_bridge.csv", (), 40),
    ],
)
def test_public_tables_are_read_as_they_are(tmp_path, name: str, args: tuple[str, ...], most_unpredicted: int) -> None:
    text = public_table(name).read_text(encoding="utf-8")
    done, rows = predicted(tmp_path, text, *args)
    assert done.exit_code == 0, done.stderr
    assert sum(not row["fits"] for row in rows) <= most_unpredicted
    assert all(row["because"] for row in rows if row["fits"])


def test_the_playbook_s_3b_has_32_heads() -> None:
    shape = model_from("ultrascale-3B")[1]
    assert (shape.layers, shape.hidden, shape.ffn, shape.heads, shape.kv_heads) == (28, 3072, 8192, 32, 32)
    assert plan("nanotron", model="3B", gpus="32", tp="32").sharding.tp == 32
