"""Words that cost a factor: number types, switches that change nothing, counts of MFU that are impossible."""

import json

import pytest
from click.testing import CliRunner, Result

from diagnose.cli import main
from diagnose.commands.fit.dtypes import computed_in, of_weights_and_autocast
from diagnose.formulas.mfu_words import mfu_word


def fit(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "100"}).invoke(main, ["fit", *args])


def asked(*args: str) -> dict:
    done = fit(*args, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ("opt-1.3b --gpu H100 --liger", "Liger has no kernels for the model type opt"),
        ("gpt2 --gpu H100 --gpus 8 --liger", "Liger has no kernels for the model type gpt2"),
        ("8b --gpu H100 --liger --stack torchtitan --dp 8 --fsdp full-shard", "torchtitan has no such setting"),
        ("8b --gpu H100 --compile --tp 2", "nanotron has no such setting"),
        (
            "1b --gpu H100 --checkpointing selective",
            "transformers has no such setting; --stack may be torchtitan, megatron, other",
        ),
        ("1b --gpu V100 --attn flash", "flash attention needs compute capability 8.0, and V100-SXM2-16GB has 7.0"),
        ("1b --gpu H100 --attn flash --dtype fp32", "flash attention takes bf16 and fp16"),
        ("gemma-2-2b --gpu H100 --attn sdpa", "transformers has no scaled_dot_product_attention"),
        ("8b --gpu H100 --fp8 --tp 2", "nanotron has no such setting"),
        ("1b --gpu H100 --zero 1", "ZeRO divides among data-parallel ranks, and there is one"),
        ("8b --gpu H100 --dtype nvfp4", "4-bit training is not predicted: nvfp4"),
        ("8b --gpu H100 --dtype MXFP8", "fp8 is a switch, not a number type"),
        ("8b --gpu T4 --dtype bf16-mixed", "this GPU cannot train in bf16"),
        ("8b --gpu V100 --dtype bf16-master --stack megatron", "--dtype fp16-master"),
    ],
)
def test_an_option_that_does_nothing_or_cannot_be_is_refused_with_the_reason(args: str, said: str) -> None:
    done = fit("--model", *args.split())
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize("stack", ["transformers", "llm-foundry", "torchtitan", "megatron", "nanotron"])
@pytest.mark.parametrize("gpu", ["V100", "T4"])
def test_a_gpu_without_bf16_trains_in_fp16(gpu: str, stack: str) -> None:
    made = asked("--model", "opt-125m", "--gpu", gpu, "--gpus", "4", "--stack", stack, "--micro-batch", "1")
    assert made["plan"]["dtype"].startswith("fp16-m")
    assert {entry["plan"]["attention"] for entry in made["ranked"]} == {"sdpa"}


def test_a_trainer_on_a_v100_is_launched_in_fp16() -> None:
    assert asked("--model", "opt-125m", "--gpu", "V100")["launch"]["training_arguments"]["fp16"] is True
    pure = asked("--model", "opt-125m", "--gpu", "V100", "--dtype", "fp16")["launch"]
    assert "fp16" not in pure["training_arguments"]  # its gradient scaler refuses fp16 gradients
    assert pure["model_kwargs"]["dtype"] == "float16"


def test_fp32_says_that_tf32_is_off_and_what_it_would_give() -> None:
    given = ("--model", "1b", "--gpu", "A100", "--dtype", "fp32", "--micro-batch", "4", "--seq-len", "1024")
    made, said = asked(*given), " ".join(fit(*given).stdout.split())
    with_tf32 = asked(*given[:5], "tf32", *given[6:])
    assert made["tf32_gain"] == pytest.approx(made["step"]["seconds"] / with_tf32["step"]["seconds"])
    assert made["tf32_gain"] > 2
    assert "TF32 is off in fp32, so products run without tensor cores" in said
    assert with_tf32["tf32_gain"] is None


def test_a_gpu_without_tf32_is_not_told_of_it() -> None:
    assert asked("--model", "opt-125m", "--gpu", "V100", "--dtype", "fp32")["tf32_gain"] is None


def test_an_mfu_of_more_than_the_peak_is_refused(tmp_path) -> None:
    table = tmp_path / "in.csv"
    table.write_text("model,gpu,gpus,micro_batch,tokens_per_s_per_gpu\n8b,H100,8,1,9000\n8b,H100,8,1,90000\n")
    done = fit("--table", str(table), "--out", str(tmp_path / "o.csv"), "--mfu-as", "palm")
    assert "line 3 is not predicted: an MFU of more than 100 % is impossible" in done.stderr
    assert "line 2" not in done.stderr


@pytest.mark.parametrize(
    ("word", "default", "told"),
    [
        ("amp_bf16", "bf16-mixed", ("bf16-mixed", False)),
        ("amp_fp16", "bf16-mixed", ("fp16-mixed", False)),
        ("amp_fp8", "bf16-mixed", ("bf16-mixed", True)),
        ("BF16", "bf16-master-fp32-grads", ("bf16-master-fp32-grads", False)),
        ("FP8-CS", "bf16-master-fp32-grads", ("bf16-master-fp32-grads", True)),
        ("MXFP8", "bf16-mixed", ("bf16-mixed", True)),
        ("fp16", "bf16-master", ("fp16-master", False)),
        ("fp32", "bf16-mixed", ("fp32", False)),
    ],
)
def test_what_a_table_computes_in(word: str, default: str, told: tuple[str, bool]) -> None:
    assert computed_in(word, default) == told


@pytest.mark.parametrize(
    ("weights", "autocast", "told"),
    [
        ("fp32", "bf16", ("bf16-mixed", False)),
        ("bf16", "bf16", ("bf16", False)),
        ("bfloat16", "no", ("bf16", False)),
        ("fp32", "no", ("fp32", False)),
        ("", "fp16", ("fp16-mixed", False)),
        ("float32", "fp8", ("bf16-mixed", True)),
    ],
)
def test_weights_and_autocast_are_one_number_type(weights: str, autocast: str, told: tuple[str, bool]) -> None:
    assert of_weights_and_autocast(weights, autocast) == told


@pytest.mark.parametrize(
    ("mfu", "word"), [(0.29, "low"), (0.4, "usual"), (0.52, "good"), (0.6, "at the practical ceiling"), (0.7, "more")]
)
def test_an_mfu_has_a_word(mfu: float, word: str) -> None:
    assert mfu_word(mfu, 1e9, in_half=True).startswith(word)
    assert mfu_word(mfu, 1e7, in_half=True) == mfu_word(mfu, 1e9, in_half=False) == ""
