"""`diagnose fit`: one job, the best of many, a table, and what it says of input that cannot be used."""

import csv
import json

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.hardware.named import gpu_named

TABLE = """model,gpu,nodes,gpus,micro_batch,grad_accum,global_batch_seqs,dp,pp,tp,zero
1B,H100-80GB (playbook text),1,8,2,16,256,8,1,1,0
8B,H100-80GB (playbook text),2,16,1,128,256,2,8,1,1
80B,H100-80GB (playbook text),32,256,1,128,256,2,32,4,1
"""


def fit(*args: str, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(main, ["fit", *args])


def asked(*args: str) -> dict:
    done = fit(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


LADDER = (
    "--model",
    "llama-3.2-1b",
    "--gpu",
    "H100-64GB-MN5",
    "--dtype",
    "bf16",
    "--attn",
    "eager",
    "--seq-len",
    "1024",
)


def test_one_gpu_takes_the_largest_micro_batch_that_fits_and_says_what_admits_more():
    made = asked(*LADDER)
    assert made["memory"]["fits"] in ("yes", "tight")
    assert made["plan"]["micro_batch"] == made["memory"]["largest_micro_batch"]
    assert sum(part["bytes"] for part in made["memory"]["parts"]) == made["memory"]["total_bytes"]
    assert sum(made["step"]["parts_s"].values()) == pytest.approx(made["step"]["seconds"])
    assert {"Liger kernels", "SDPA instead of eager attention"} <= {each["name"] for each in made["memory"]["remedies"]}


def test_a_micro_batch_that_does_not_fit_is_told_so_and_exits_well():
    made = asked(*LADDER, "--micro-batch", "64")
    assert made["memory"]["fits"] == "no"
    assert made["plan"]["micro_batch"] == 64


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_the_report_fits_the_terminal_and_names_its_parts(columns: int) -> None:
    done = fit("--model", "8b", "--gpu", "H100", "--gpus", "16", "--global-batch", "256", columns=columns)
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    to_copy = next(at for at, line in enumerate(lines) if line.startswith("launch:"))
    assert max(map(len, lines[:to_copy])) <= columns
    labels = {line.split(":")[0] for line in lines if line and not line.startswith(" ")}
    assert {"job", "gpus", "memory", "step", "rate", "fit", "batch", "throughput", "best", "launch"} <= labels


def test_without_a_division_the_best_are_ranked_for_the_global_batch():
    made = asked("--model", "8b", "--gpu", "H100", "--gpus", "16", "--global-batch", "256", "--stack", "nanotron")
    losses = [entry["slower_share"] for entry in made["ranked"]]
    assert len(losses) > 1
    assert losses[0] == 0
    assert losses == sorted(losses)
    assert made["ranked"][0]["plan"] == made["plan"]
    assert made["plan"]["global_batch"] == 256
    assert [reason["step"] for reason in made["reasons"]] == ["fit", "batch", "throughput"]


def test_a_given_division_is_predicted_as_it_is():
    made = asked("--model", "8b", "--gpu", "H100", "--dp", "2", "--tp", "4", "--zero", "1", "--micro-batch", "2",
                 "--global-batch", "64")  # fmt: skip
    assert made["ranked"] == []
    assert made["plan"]["gpus"] == 8
    assert made["plan"]["accumulation"] == 16
    assert made["stack"]["name"] == "nanotron"


def test_what_the_trainer_cannot_divide_points_to_the_stack_that_can():
    done = fit("--model", "70b", "--gpu", "H100", "--gpus", "8")
    assert done.exit_code == 3
    assert "the job does not fit: Llama-3.1-70B on 8 GPUs" in done.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--gpu", "H100"), "--model is missing"),
        (("--model", "8b"), "--gpu is missing"),
        (("--model", "llama-9", "--gpu", "H100"), "no file and no known model of that name: llama-9"),
        (("--model", "8b", "--gpu", "H1000"), "no such GPU is known: H1000"),
        (("--model", "8b", "--gpu", "H100", "--gpus", "6", "--tp", "3"), "tp may be 1, 2, 4, 8, 16, 32"),
        (("--model", "8b", "--gpu", "H100", "--gpus", "8", "--tp", "3"), "tp x pp must divide 8"),
        (("--model", "8b", "--gpu", "H100", "--dtype", "int3"), "no such precision: int3"),
        (("--model", "8b", "--gpu", "H100", "--stack", "jax"), "no such training stack: jax"),
        (
            ("--model", "8b", "--gpu", "H100", "--dp", "8", "--micro-batch", "3", "--global-batch", "64"),
            "multiple of 24",
        ),
        (
            ("--model", "8b", "--gpu", "H100", "--tp", "2", "--stack", "transformers"),
            "transformers divides only data: tp=2, pp=1",
        ),
        (("--model", "8b", "--gpu", "H100", "--dp", "4", "--tp", "2", "--zero", "3"), "zero may be 0, 1"),
        (
            ("--model", "8b", "--gpu", "H100", "--dp", "4", "--tp", "2", "--zero", "3"),
            "--stack may be torchtitan, megatron, other for it",
        ),
        (("--model", "8b", "--gpu", "H100", "--pp", "64"), "pp may be 1 to 32"),
        (("--model", "gpt2", "--gpu", "H100", "--seq-len", "2048"), "use --seq-len 1024, or a config.json"),
        (("--table", "none.csv"), "--out is missing"),
        (("--model", "8b", "--gpu", "H100", "--out", "o.csv"), "--out needs --table"),
        (("--table", "none.csv", "--out", "none.csv"), "--out would overwrite the input of --table"),
        (("--table", "none.csv", "--out", "o.csv", "--tp", "2"), "--tp has no effect with --table"),
        (("--model", "8b", "--gpu", "H100", "--dp", "8", "--zero", "1", "--fsdp", "full-shard"), "--zero and --fsdp"),
        (
            ("--model", "8b", "--gpu", "H100", "--gpus", "8", "--micro-batch", "3", "--global-batch", "64"),
            "no division of the job reaches the global batch with the stated micro-batch",
        ),
        (
            ("--model", "8b", "--gpu", "H100", "--dp", "8", "--accumulation", "3", "--global-batch", "64"),
            "the global batch is not what its parts make",
        ),
    ],
)
def test_what_cannot_be_meant_is_wrong_usage_with_one_clear_message(args, said):
    done = fit(*args)
    assert done.exit_code == 2
    assert said in done.stderr


def test_the_stated_accumulation_and_the_global_batch_leave_one_micro_batch():
    made = asked("--model", "8b", "--gpu", "H100", "--dp", "8", "--zero", "3", "--accumulation", "4", "--global-batch",
                 "64")  # fmt: skip
    assert (made["plan"]["micro_batch"], made["plan"]["accumulation"]) == (2, 4)


def test_a_table_that_is_not_there_is_unusable_input():
    done = fit("--table", "none.csv", "--out", "o.csv")
    assert (done.exit_code, "cannot read the table: none.csv" in done.stderr) == (3, True)


def predicted(tmp_path, text: str) -> list[dict[str, str]]:
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text(text)
    done = fit("--table", str(table), "--out", str(out))
    assert done.exit_code == 0, done.output
    return list(csv.DictReader(out.read_text().splitlines()))


def test_a_table_keeps_its_columns_and_gets_its_predictions(tmp_path):
    rows = predicted(tmp_path, TABLE)
    assert [row["model"] for row in rows] == ["1B", "8B", "80B"]
    for row in rows:
        assert float(row["predicted_tokens_per_s_per_gpu"]) > 0
        assert 0 < float(row["predicted_mfu_percent"]) < 100
        assert float(row["predicted_memory_gb"]) > 0
        assert row["fits"] == "yes"
        assert 0 < float(row["expected_tokens_per_s_per_gpu"]) <= 1.01 * float(row["predicted_tokens_per_s_per_gpu"])


def test_measured_columns_change_nothing(tmp_path):
    lines = TABLE.splitlines()
    measured = "\n".join([lines[0] + ",tokens_per_s_per_gpu,mfu_percent", *(line + ",1,1" for line in lines[1:])])
    without, with_them = predicted(tmp_path, TABLE), predicted(tmp_path, measured)
    assert [row["predicted_mfu_percent"] for row in without] == [row["predicted_mfu_percent"] for row in with_them]


def test_short_names_are_those_of_the_table_s_own_models(tmp_path):
    """1B is 1.34 B parameters with 32 key and value heads there, not Llama 3.2 1B with 8."""
    playbook, llama = predicted(tmp_path, TABLE)[0], predicted(tmp_path, TABLE.replace("1B,", "Llama-3.2-1B,"))[0]
    assert playbook["predicted_tokens_per_s_per_gpu"] != llama["predicted_tokens_per_s_per_gpu"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("80B,", "81B,", "line 4 is not predicted: no file and no known model of that name: 81B"),
        ("32,4,1\n", "32,3,1\n", "line 4 is not predicted: the sharding takes other GPUs than there are"),
        ("2,16,256", "two,16,256", "line 2 is not predicted: micro_batch must be a whole number: 'two'"),
        ("1,8,2,16", "1,8,1e300,16", "line 2 is not predicted: micro_batch must be from 1 to 10,000,000: 1e300"),
        ("1,8,2,16", "1,99999999999,2,16", "line 2 is not predicted: gpus must be from 1 to 10,000,000: 99999999999"),
        ("32,4,1\n", "32,0,1\n", "line 4 is not predicted: tp must be from 1 to 10,000,000: 0"),
        ("2,16,256,8", "2,16,256,0", "line 2 is not predicted: dp must be from 1 to 10,000,000: 0"),
        ("2,16,256", "3,16,256", "line 2 is not predicted: the global batch is no multiple of dp x micro-batch"),
    ],
)
def test_a_row_that_cannot_be_predicted_is_told_and_left_empty(tmp_path, old, new, said):
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text(TABLE.replace(old, new, 1))
    done = fit("--table", str(table), "--out", str(out))
    assert done.exit_code == 0
    assert said in done.stderr
    assert "1 of them without a prediction" in done.stderr
    assert sorted(row["fits"] for row in csv.DictReader(out.read_text().splitlines())) == ["", "yes", "yes"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TABLE.replace("model,gpu,", "model,board,"), "the table has no column gpu"),
        (TABLE.splitlines()[0], "the table has no rows"),
        (TABLE.replace("H100", "H1000"), "no row of the table can be predicted"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused_as_a_whole(tmp_path, text, said):
    table, out = tmp_path / "in.csv", tmp_path / "out.csv"
    table.write_text(text)
    done = fit("--table", str(table), "--out", str(out))
    assert done.exit_code == 3
    assert said in done.stderr
    assert not out.exists()


@pytest.mark.parametrize(("model", "tokens"), [("gpt2", 1024), ("opt-1.3b", 2048), ("8b", 2048)])
def test_sequences_are_as_long_as_usual_where_the_model_has_places_for_them(model: str, tokens: int) -> None:
    assert asked("--model", model, "--gpu", "H100")["plan"]["seq_len"] == tokens


def test_a_stack_that_builds_the_model_gives_it_a_place_for_each_token() -> None:
    short = asked("--model", "gpt2", "--gpu", "H100", "--micro-batch", "1", "--stack", "llm-foundry")
    long = asked(
        "--model", "gpt2", "--gpu", "H100", "--micro-batch", "1", "--stack", "llm-foundry", "--seq-len", "2048"
    )
    weights = [
        next(part["bytes"] for part in made["memory"]["parts"] if part["name"] == "weights") for made in (short, long)
    ]
    assert weights[1] - weights[0] == 4 * 1024 * 768  # fp32 rows of the hidden width


def test_what_does_not_fit_is_told_what_fits_together_and_not_how_to_launch_it() -> None:
    said = " ".join(fit("--model", "1b", "--gpu", "L4").stdout.split())
    assert "not even one sequence fits 2 with 8-bit AdamW and Liger kernels together" in said
    assert "step: were there room, " in said
    assert "launch: nothing, since the job does not fit" in said
    assert "TrainingArguments" not in said


def test_what_no_change_makes_fit_is_told_what_else_there_is() -> None:
    said = " ".join(fit("--model", "8b", "--gpu", "H100").stdout.split())
    assert "nor with 8-bit AdamW, full activation checkpointing and Liger kernels: take more GPUs" in said
    assert "or --lora-rank; offloading is not counted here" in said


def boards(gpu: str) -> str:
    return gpu_named(gpu).key


@pytest.mark.parametrize(("gpu", "stack", "ran"), [
    ("H100-64GB-MN5", "transformers", True), ("MI300X", "transformers", False), ("A100", "llm-foundry", True),
    ("H200", "nanotron", False), ("GB200", "megatron", True),
])  # fmt: skip
def test_rates_of_other_gpus_are_told_to_be_so(gpu: str, stack: str, ran: bool) -> None:
    given = ("--model", "1b", "--gpu", gpu, "--stack", stack, "--micro-batch", "1")
    assert asked(*given)["stack"]["ran_on_such_a_board"] is ran
    assert (f"no row on {boards(gpu)}" in " ".join(fit(*given).stdout.split())) is not ran


def test_a_stall_is_never_certain() -> None:
    given = ("--model", "ultrascale-80B", "--gpu", "H100", "--dp", "32", "--tp", "16", "--micro-batch", "1")
    said = " ".join(fit(*given).stdout.split())
    assert "risk: over 99 % of such jobs are expected to stall" in said


def test_long_steps_are_told_in_seconds_and_columns_stand_in_line() -> None:
    done = fit("--model", "8b", "--gpu", "H100", "--seq-len", "131072", "--micro-batch", "8", "--dp", "1")
    lines = done.stdout.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("rate:"))
    parts = [line for line in lines[start:] if " s  " in line and "%" in line]
    assert len(parts) >= 3
    assert len({line.index(" s  ") for line in parts}) == 1
    assert " ms " not in done.stdout
