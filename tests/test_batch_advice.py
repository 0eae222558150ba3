"""What advice that changes the batch says of the learning rate and of the critical batch."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from kineto import Trace

from diagnose.analysis import Options, analyze
from diagnose.cli import main
from diagnose.facts import Fact, Facts, Scalar, Unknown
from diagnose.formulas.critical_batch import CriticalBatch, learning_rate_factor, samples_factor
from diagnose.judge.findings import batch_advice
from diagnose.metrics import units
from diagnose.rule import builtin_rules, load_rule


def facts(**known: Scalar) -> Facts:
    """These, and all others unknown."""
    return {name: Fact(name, known.get(name, Unknown("not given", None)), unit) for name, unit in units().items()}


def advice(rule: str, **known: Scalar) -> str:
    return batch_advice(load_rule(builtin_rules() / f"{rule}.toml", units()), facts(**known))


ADAM = {"learning_rate_rule": "square root", "optimizer_name": "AdamW"}
FOUR_TIMES = {"accumulation_steps": 2.0, "micro_batch_size": 8.0}


def test_adam_scales_with_the_square_root_and_sgd_in_proportion() -> None:
    adam = advice("optimizer-for-few-tokens", **ADAM, **FOUR_TIMES)
    sgd = advice("optimizer-for-few-tokens", learning_rate_rule="linear", optimizer_name="SGD", **FOUR_TIMES)

    assert "becomes 4 times as large: multiply the learning rate by 2 (square root, as AdamW asks for)" in adam
    assert "multiply the learning rate by 4 (linear, as SGD asks for)" in sgd
    assert learning_rate_factor(9, "square root") == 3


def test_of_another_optimizer_the_learning_rate_is_unknown() -> None:
    assert "unknown for this optimizer" in advice("optimizer-for-few-tokens", optimizer_name="Lion", **FOUR_TIMES)


def test_the_batch_stays_where_accumulation_falls_as_the_micro_batch_grows() -> None:
    same = {"grown_micro_batch": 8, "shrunk_accumulation_steps": 1, "micro_batch_size": 1, "accumulation_steps": 8}

    said = advice("small-micro-batches", **same, **ADAM)

    assert said == "The global batch stays as it is, and so does the learning rate."


def test_the_critical_batch_says_what_the_same_loss_takes() -> None:
    said = advice("optimizer-for-few-tokens", critical_batch_factor=0.5, **ADAM, **FOUR_TIMES)

    assert samples_factor(0.5, 4) == 2  # (1 + 2) / (1 + 0.5)
    assert "It is then 2 times the critical batch: the same loss takes 100 % more samples." in said


def test_an_unknown_critical_batch_says_how_to_measure_it() -> None:
    said = advice("optimizer-for-few-tokens", **ADAM, **FOUR_TIMES)
    assert "gradient noise scale (McCandlish et al. 2018) and pass --critical-batch" in said


def test_where_the_batch_is_not_known_the_rule_alone_stands() -> None:
    said = advice("low-memory-use", **ADAM)
    assert said.startswith("If the global batch grows, scale the learning rate with its square root")


def test_what_leaves_the_batch_alone_says_nothing_of_it() -> None:
    assert advice("unfused-attention", **ADAM, **FOUR_TIMES) == ""


def measured(folder: Path, record: dict[str, object], **stated: object) -> dict[str, object]:
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], "gemm", 100)
            job.sync()
    job.write(folder / "rank0.json.gz")
    (folder / "capture-rank0.json").write_text(json.dumps(record))
    found = analyze(folder, options=Options(**stated))  # type: ignore[arg-type]
    return {fact.name: fact.value for fact in found.facts}


RECORD: dict[str, object] = {
    "world_size": 1,
    "optimizer": {"class": "AdamW"},
    "batch": {"tokens": 4096, "shapes": {"input_ids": [4, 1024]}},
    "training_arguments": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 8},
}


@pytest.mark.parametrize(
    ("critical", "factor"),
    [(CriticalBatch(64, "sequences"), 0.5), (CriticalBatch(65_536, "tokens"), 0.5), (None, None)],
)
def test_the_global_batch_is_held_against_the_critical_one(
    tmp_path: Path, critical: CriticalBatch | None, factor: float | None
) -> None:
    found = measured(tmp_path, RECORD, critical_batch=critical)

    assert (found["global_batch_samples"], found["global_batch_tokens"]) == (32, 32_768)
    assert found["critical_batch_factor"] == factor
    assert found["learning_rate_rule"] == "square root"


def test_ranks_that_share_a_batch_leave_it_unknown(tmp_path: Path) -> None:
    job = Trace(world=8)
    with job.step():
        job.op("aten::mm", [[64, 64], [64, 64]], "gemm", 100)
    job.write(tmp_path / "rank0.json.gz")
    (tmp_path / "capture-rank0.json").write_text(json.dumps(RECORD))

    found = {fact.name: fact for fact in analyze(tmp_path).facts}

    assert found["global_batch_samples"].because == "how the ranks divide the batch is not recorded"


@pytest.mark.parametrize(("text", "message"), [("0", "not in the range"), ("some", "not a valid"), ("-3seq", "range")])
def test_a_critical_batch_is_a_number_of_tokens_or_sequences(text: str, message: str, tmp_path: Path) -> None:
    answer = CliRunner().invoke(main, ["analyze", str(tmp_path), "--critical-batch", text])
    assert answer.exit_code == 2
    assert message in answer.output
