"""The captured job as a plan: the model, batch, number types and sharding in its record."""

from typing import TypeVar

from diagnose.diagnosis.capacity import WITHOUT_RECORD
from diagnose.errors import UserError
from diagnose.facts import Unknown
from diagnose.formulas.model import ModelShape
from diagnose.formulas.supported_kernels import has_liger
from diagnose.hardware import Gpu
from diagnose.metrics import Measured
from diagnose.metrics.model.flops import model_shape
from diagnose.predict.memory.job import Attention, JobPlan, Sharding
from diagnose.probes.frameworks import named
from diagnose.trace.record import CaptureRecord

Value = TypeVar("Value")
ATTENTIONS: dict[str, Attention] = {
    "eager": "eager",
    "sdpa": "sdpa",
    "flash_attention_2": "flash",
    "flash_attention_3": "flash",
}
_OPTIMIZERS = {"AdamW": "adamw", "Adam": "adamw", "AdamW8bit": "adamw-8bit", "Adam8bit": "adamw-8bit"}
_OPTIMIZERS |= {"Lion": "lion", "Lion8bit": "lion-8bit", "Adafactor": "adafactor"}
_ZERO_OF_STRATEGY = {"NO_SHARD": 0, "SHARD_GRAD_OP": 2, "FULL_SHARD": 3}


class NotRecorded(Exception):
    """A part of the job that the record does not contain."""


def recorded_plan(m: Measured) -> JobPlan | str:
    """The plan of the captured job, or why its memory cannot be counted."""
    try:
        return _plan(m)
    except NotRecorded as untold:
        return str(untold)
    except UserError as error:
        return error.what


def _plan(m: Measured) -> JobPlan:
    record = m.record
    if not record:
        raise NotRecorded(WITHOUT_RECORD)
    if record.flag("compiled"):
        raise NotRecorded("torch.compile decides what is kept for the backward pass")
    micro_batch, seq_len = _batch(record)
    attention = ATTENTIONS.get(record.text("model.attn_implementation") or "")
    return JobPlan(
        name=record.text("model.class") or "the model",
        model=(model := _model(m)),
        gpu=_gpu(m),
        gpus=(sharding := _sharding(record)).gpus,
        seq_len=seq_len,
        micro_batch=micro_batch,
        accumulation=max(1, int(record.number("training_arguments.gradient_accumulation_steps") or 1)),
        dtype=_dtype(record),
        optimizer=_known(_OPTIMIZERS.get(record.text("optimizer.class") or ""), "the optimizer's states are not known"),
        attention=_known(attention, "how attention is computed is not recorded"),
        checkpointing="full" if record.flag("model.gradient_checkpointing") else "none",
        liger=bool(record.flag("liger.asked")) and has_liger(model.model_type),
        sharding=sharding,
    )


def _gpu(m: Measured) -> Gpu:
    if not m.timeline.has_gpu:
        raise NotRecorded("no GPU was seen")
    return _known(m.gpu_info, "the GPU is not in the table of boards")


def _model(m: Measured) -> ModelShape:
    shape = model_shape(m)
    if isinstance(shape, Unknown):
        raise NotRecorded(shape.because)
    everything, trained = m.record.number("model.parameters"), m.record.number("model.trainable")
    if everything is None or everything != trained:
        raise NotRecorded("a part of the model is frozen, or it is not recorded that none is")
    return shape


def _batch(record: CaptureRecord) -> tuple[int, int]:
    """Sequences and tokens of the last micro-batch."""
    sizes = record.get("batch.shapes.input_ids")
    if not sizes or len(sizes) != 2 or not all(sizes):
        raise NotRecorded("the batch has no tokens, or their shape is not recorded")
    return int(sizes[0]), int(sizes[1])


def _dtype(record: CaptureRecord) -> str:
    """The type of most weights, and what the Trainer casts them to."""
    counts = record.get("model.dtypes")
    if not counts:
        raise NotRecorded("the types of the weights are not recorded")
    held = max(counts, key=counts.get)
    cast = next((name for name in ("bf16", "fp16") if record.flag(f"training_arguments.{name}")), None)
    if held == "float32":
        return f"{cast}-mixed" if cast else "fp32"
    half = _known({"bfloat16": "bf16", "float16": "fp16"}.get(held), f"weights are in {held}")
    return half if record.get("zero") is None else f"{half}-master"


def _sharding(record: CaptureRecord) -> Sharding:
    world_size = int(record.number("world_size") or 1)
    if record.get("zero") is not None:
        return Sharding(dp=world_size, zero=_zero(record))
    _sharded_by(record.text("training_loop"))
    if record.get("fsdp") is not None:
        strategy = record.text("fsdp.sharding_strategy") or "FULL_SHARD"  # fully_shard has no other
        zero = _known(_ZERO_OF_STRATEGY.get(strategy), f"{strategy} divides by an unknown number of ranks")
        return Sharding(dp=world_size, zero=zero)
    if world_size > 1 and record.get("ddp") is None:
        raise NotRecorded("how the ranks divide the model is not recorded")
    return Sharding(dp=world_size)


def _zero(record: CaptureRecord) -> int:
    """The ZeRO stage of an engine that keeps everything on the device."""
    if {record.text("zero.offload_optimizer"), record.text("zero.offload_param")} - {"none", None}:
        raise NotRecorded("a part of the training state is offloaded")
    return int(_known(record.number("zero.stage"), "how the ranks divide the model is not recorded"))


def _sharded_by(loop: str | None) -> None:
    """Whatever runs the loop divides the model in no way that is not recorded."""
    try:
        unrecorded = "" if loop is None else named(loop).unrecorded
    except LookupError as unknown:
        raise NotRecorded(str(unknown)) from None
    if unrecorded:
        raise NotRecorded(f"{unrecorded} is not recorded")


def _known(value: Value | None, because: str) -> Value:
    if value is None:
        raise NotRecorded(because)
    return value
