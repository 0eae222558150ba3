"""The memory ledger of a captured job, held against what its record says of torch's peaks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, GEMM
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.commands.fit.boards import gpu_named
from diagnose.diagnosis.capacity import Capacity, MemoryCount
from diagnose.facts import Fact, Unknown
from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.metrics import units
from diagnose.predict.memory.changes import COMPILED, changed
from diagnose.predict.memory.job import JobPlan, Sharding
from diagnose.predict.memory.remedies import largest_micro_batch
from diagnose.rule import builtin_rules, load_rule

LLAMA = NAMED_MODELS["Llama-3.2-1B"]
CONFIG = {
    "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
    "intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True,
}  # fmt: skip
RECORD: dict[str, Any] = {
    "world_size": 1,
    "training_loop": "transformers Trainer",
    "model": {
        "model_type": "llama",
        "class": "LlamaForCausalLM",
        "config": CONFIG,
        "parameters": LLAMA.parameters,
        "trainable": LLAMA.parameters,
        "dtypes": {"bfloat16": LLAMA.parameters},
        "attn_implementation": "sdpa",
        "gradient_checkpointing": False,
    },
    "batch": {"tokens": 7 * 1024, "shapes": {"input_ids": [7, 1024]}},
    "optimizer": {"class": "AdamW"},
    "training_arguments": {"bf16": True},
    "memory": {"max_allocated_bytes": 35_000_000_000, "max_reserved_bytes": 40_000_000_000},
}


def capacity(folder: Path, **changes: Any) -> Capacity:
    """What a capture says whose record has the changes, each a key or, by two underscores, a key of a part."""
    record = {key: dict(value) if isinstance(value, dict) else value for key, value in RECORD.items()}
    for path, value in changes.items():
        *parts, last = path.split("__")
        (record[parts[0]] if parts else record)[last] = value
    job = Trace()
    for _ in range(3):
        with job.step():
            job.op("aten::mm", [[7168, 2048], [2048, 8192]], GEMM, 9_000)
            job.op("aten::mul", [[2048, 1024], [2048, 1024]], ADD, 900)
            job.sync()
    job.write(folder / "rank0.json.gz")
    (folder / "capture-rank0.json").write_text(json.dumps(record))
    return analyze(folder).capacity


def counted(folder: Path, **changes: Any) -> MemoryCount:
    found = capacity(folder, **changes).counted
    assert found is not None
    return found


def test_the_count_is_held_against_the_recorded_peaks(tmp_path: Path) -> None:
    found = counted(tmp_path)
    parts = {part.name: part.bytes for part in found.parts}
    assert (found.micro_batch, found.seq_len) == (7, 1024)
    assert parts["optimizer states"] == 4 * LLAMA.parameters
    assert sum(parts.values()) == found.total_bytes
    assert found.allocated_miss == pytest.approx(found.allocated_bytes / 35e9 - 1)
    assert found.reserved_miss == pytest.approx(found.reserved_bytes / 40e9 - 1)
    assert found.largest_micro_batch > 7
    assert "Liger kernels" in {room.name for room in found.room}


def test_peaks_that_are_not_recorded_have_no_miss(tmp_path: Path) -> None:
    found = counted(tmp_path, memory={})
    assert found.total_bytes > 0
    assert found.allocated_miss is None
    assert found.recorded_reserved_bytes is None


def test_weights_in_fp32_under_the_trainers_bf16_are_autocast(tmp_path: Path) -> None:
    found = counted(tmp_path, model__dtypes={"float32": LLAMA.parameters})
    assert {part.name: part.bytes for part in found.parts}["weights cast by autocast"] == 2 * LLAMA.parameters


def test_deepspeed_keeps_fp32_copies_and_divides_by_its_stage(tmp_path: Path) -> None:
    found = counted(tmp_path, world_size=8, training_loop="DeepSpeed", zero={"stage": 1, "offload_optimizer": "none"})
    states = {part.name: part.bytes for part in found.parts}
    assert states["optimizer states"] + states["master weights"] == pytest.approx(12 * LLAMA.parameters / 8, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"compiled": True}, "torch.compile decides what is kept"),
        ({"training_loop": "DeepSpeed"}, "DeepSpeed's ZeRO stage is not recorded"),
        ({"zero": {"stage": 2, "offload_optimizer": "cpu"}}, "a part of the training state is offloaded"),
        ({"training_loop": "Composer"}, "'Composer' is no training framework that this version knows"),
        ({"optimizer__class": "Shampoo"}, "the optimizer's states are not known"),
        ({"model__attn_implementation": "flex_attention"}, "how attention is computed"),
        ({"model__trainable": 1_000_000}, "a part of the model is frozen"),
        ({"model__model_type": "mamba"}, "no formula counts the parts of a model of type mamba"),
        ({"batch__shapes": {"pixels": [7, 3, 224, 224]}}, "the batch has no tokens"),
        ({"world_size": 8}, "how the ranks divide the model is not recorded"),
        ({"fsdp": {"class": "FSDP", "sharding_strategy": "HYBRID_SHARD"}}, "HYBRID_SHARD divides by an unknown number"),
    ],
)
def test_what_the_record_does_not_tell_is_the_reason_for_no_count(
    tmp_path: Path, changes: dict[str, Any], because: str
) -> None:
    found = capacity(tmp_path, **changes)
    assert because in found.because
    assert found.counted is None


def changes(plan: JobPlan, rule: str, **facts: float | str | bool) -> JobPlan | str:
    """The job with the change of a rule that ships."""
    known = {name: Fact(name, Unknown("not given", None), unit) for name, unit in units().items()}
    known |= {name: Fact(name, value, known[name].unit) for name, value in facts.items()}
    return changed(plan, load_rule(builtin_rules() / f"{rule}.toml", units()), known)


PLAN = JobPlan("llama", LLAMA, gpu_named("H100"), seq_len=1024, micro_batch=7, dtype="fp32", attention="eager")
SHARDED = replace(PLAN, gpus=16, nodes=2, sharding=Sharding(dp=16, zero=3))


@pytest.mark.parametrize(
    ("plan", "rule", "facts", "after"),
    [
        (PLAN, "products-in-single-precision", {}, {"dtype": "bf16-mixed"}),
        (PLAN, "unfused-attention", {}, {"attention": "sdpa"}),
        (PLAN, "unfused-loss", {"training_loop": "transformers Trainer", "liger_supported": True}, {"liger": True}),
        (PLAN, "small-micro-batches", {"grown_micro_batch": 14}, {"micro_batch": 14}),
        (replace(PLAN, checkpointing="full"), "needless-recomputation", {}, {"checkpointing": "none"}),
        (SHARDED, "sharded-though-it-fits", {}, {"sharding": Sharding(dp=16)}),
        (SHARDED, "sharded-across-nodes", {"nodes": 2}, {"sharding": Sharding(dp=16, zero=3, replicas=2)}),
        (PLAN, "data-wait", {"advised_loader_workers": 8, "loader_workers": "none"}, {}),
    ],
)
def test_a_rules_change_is_a_change_of_the_job(
    plan: JobPlan, rule: str, facts: dict[str, Any], after: dict[str, Any]
) -> None:
    assert changes(plan, rule, **facts) == replace(plan, **after)


def test_what_a_change_does_to_memory_may_be_unknown() -> None:
    assert changes(PLAN, "launch-bound", training_loop="transformers Trainer") == COMPILED
    assert changes(SHARDED, "sharded-across-nodes") == "how the change divides the training state is not known"


def eager_job(folder: Path) -> Path:
    """fp32 weights, eager attention, and products that show both."""
    job, softmax = Trace(), "void softmax_warp_forward<float, float, float, 10>"
    for _ in range(4):
        with job.step():
            job.op("aten::mm", [[7168, 2048], [2048, 8192]], "ampere_sgemm_128x64_tn", 9_000)
            for _ in range(30):
                job.op("aten::bmm", [[224, 1024, 64], [224, 64, 1024]], "ampere_sgemm_128x64_tn", 1)
                job.op("aten::_softmax", [[7, 32, 1024, 1024]], softmax, 100)
                job.op("aten::bmm", [[224, 1024, 1024], [224, 1024, 64]], "ampere_sgemm_128x64_tn", 1)
            job.sync()
    job.write(folder / "rank0.json.gz")
    model = {**RECORD["model"], "dtypes": {"float32": LLAMA.parameters}, "attn_implementation": "eager"}
    (folder / "capture-rank0.json").write_text(json.dumps({**RECORD, "model": model, "training_arguments": {}}))
    return folder


def test_each_change_of_the_plan_says_what_it_leaves_of_memory(tmp_path: Path) -> None:
    diagnosis = analyze(eager_job(tmp_path))
    found = diagnosis.capacity.counted
    assert found is not None
    autocast, attention = found.planned[:2]
    assert [autocast.rule, attention.rule] == [step.rule for step in diagnosis.plan][:2]
    assert (autocast.rule, attention.rule) == ("products-in-single-precision", "unfused-attention")
    assert autocast.total_bytes == found.total_bytes - (autocast.freed_bytes or 0)
    assert attention.total_bytes == (autocast.total_bytes or 0) - (attention.freed_bytes or 0)
    assert attention.freed_bytes is not None
    assert attention.freed_bytes > 10 << 30  # 32 heads x 1,024 scores x 6 bytes for each of 7,168 tokens in 16 blocks
    least, most = attention.micro_batch_range or (0, 0)
    assert least < (attention.largest_micro_batch or 0) < most


def test_the_range_of_a_micro_batch_reaches_from_the_ledgers_error_to_what_was_recorded(tmp_path: Path) -> None:
    half = counted(tmp_path).reserved_bytes // 2
    found = counted(tmp_path, memory={"max_reserved_bytes": half})
    least, most = found.micro_batch_range
    assert least == largest_micro_batch(bf16_job(), 1.1)
    assert most == largest_micro_batch(bf16_job(), half / found.reserved_bytes) > 1.5 * found.largest_micro_batch


def bf16_job() -> JobPlan:
    return JobPlan("llama", LLAMA, gpu_named("H100"), seq_len=1024, micro_batch=7, dtype="bf16")


def test_other_optimizers_are_told_by_the_bytes_of_their_states(tmp_path: Path) -> None:
    found = counted(tmp_path, model__dtypes={"float32": LLAMA.parameters})
    states = {row.name: row for row in found.optimizers}
    assert [row.name for row in found.optimizers if row.in_use] == ["AdamW"]
    assert states["AdamW"].parameter_bytes == 8
    assert states["8-bit AdamW"].state_bytes == pytest.approx((2 + 2 / 64) * LLAMA.parameters, rel=1e-6)
    assert states["Adafactor"].state_bytes == 4 * LLAMA.factored_values < states["AdamW"].state_bytes / 1000
    assert states["AdamW"].total_bytes - states["Lion"].total_bytes == 4 * LLAMA.parameters
    assert [row.name for row in found.optimizers if not row.numerics] == ["AdamW"]


def test_an_optimizer_is_not_offered_what_it_has_no_form_of(tmp_path: Path) -> None:
    found = counted(tmp_path, optimizer__class="Lion")
    assert [row.name for row in found.optimizers] == ["Lion", "8-bit Lion"]


def test_liger_that_knows_no_kernels_for_the_model_saves_nothing(tmp_path: Path) -> None:
    opt = NAMED_MODELS["OPT-1.3B"].parameters
    sizes = {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "ffn_dim": 8192,
             "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 2048}  # fmt: skip
    model = {**RECORD["model"], "model_type": "opt", "class": "OPTForCausalLM", "config": sizes, "parameters": opt}
    model |= {"trainable": opt, "dtypes": {"bfloat16": opt}}
    for name in ("asked", "not"):
        (tmp_path / name).mkdir()
    asked = counted(tmp_path / "asked", model=model, liger={"asked": True})
    assert asked.parts == counted(tmp_path / "not", model=model).parts
