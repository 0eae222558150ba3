"""The memory ledger of a captured job, held against what its record says of torch's peaks."""

import json
from pathlib import Path
from typing import Any

import pytest
from analysed import ADD, GEMM
from kineto import Trace

from diagnose.analysis import analyze
from diagnose.diagnosis.capacity import Capacity, MemoryCount
from diagnose.formulas.named_models import NAMED_MODELS

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


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({"compiled": True}, "torch.compile decides what is kept"),
        ({"training_loop": "DeepSpeed"}, "DeepSpeed's ZeRO stage is not recorded"),
        ({"optimizer__class": "Shampoo"}, "the optimizer's states are not known"),
        ({"model__attn_implementation": "flex_attention"}, "how attention is computed"),
        ({"model__trainable": 1_000_000}, "a part of the model is frozen"),
        ({"model__model_type": "mamba"}, "does not tell the sizes of the model"),
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
