"""Jobs that the tests of memory and time ask about."""

from typing import Any

from diagnose.formulas.named_models import NAMED_MODELS
from diagnose.hardware import table
from diagnose.predict.memory.job import JobPlan, Sharding

GPUS = {gpu.key: gpu for gpu in table()}


def job(model: str, sharding: Sharding | None = None, *, gpu: str = "H100-SXM5-80GB", **fields: Any) -> JobPlan:
    """That model on as many GPUs as its sharding takes."""
    divided = sharding or Sharding()
    return JobPlan(model, NAMED_MODELS[model], GPUS[gpu], **{"gpus": divided.gpus, "sharding": divided, **fields})
