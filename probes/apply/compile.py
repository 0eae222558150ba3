"""A patch that compiles the model of a loop without a Trainer: in place, once the loop has shown which module it calls.

The wrapper that the loop calls is what has to be compiled: around DistributedDataParallel the compiler cuts its graphs
at the buckets, while a compiled model inside it hands over all gradients at the end.
"""

from __future__ import annotations

from typing import Any

from ..facts.model import live_modules, optimized
from ..guard import guarded
from ..hand_over import before_forward
from ..introspection import own_attribute, parameters
from .device import cpp_compiler_missing, triton_missing
from .job_patch import JobPatch
from .reasons import Reason, Refusal

TARGET, KEY = "torch", "compile"
_OWN = "torch.nn.modules."  # the compiler starts at no call into these files


def compiled_next(patch: JobPatch, optimizer: Any) -> None:
    """Compile the module that the loop calls next, among those that hold all parameters of `optimizer`."""
    models = holding_all(optimizer)
    refusal = refused(models)
    if refusal:
        patch.refuse(TARGET, KEY, refusal)
        return
    handles: list[Any] = []

    def called(module: Any, args: Any) -> None:
        while handles:
            handles.pop().remove()
        guarded(lambda: _compile(patch, module), "the model is not compiled")

    patch.awaits(TARGET, KEY, Refusal(Reason.NOT_CALLED))
    handles += [before_forward(model, called, "the model is not compiled") for model in models]


def _compile(patch: JobPatch, module: Any) -> None:
    refusal = of_torch(module)
    if refusal:
        patch.refuse(TARGET, KEY, refusal)
        return
    module.compile()
    patch.applied(TARGET, [KEY])


def holding_all(optimizer: Any) -> list[Any]:
    """The live modules that hold all parameters of the optimizer."""
    wanted = {id(parameter) for parameter in optimized(optimizer)}
    return [one for one in live_modules() if wanted and wanted <= {id(p) for p in parameters(one)}]


def of_torch(module: Any) -> Refusal | None:
    """Why the module, which the loop calls, is not compiled in place; None if it can be."""
    is_torchs = type(module).__module__.startswith(_OWN)
    return Refusal(Reason.OF_TORCH, type(module).__name__) if is_torchs else None


def refused(models: list[Any]) -> Refusal | None:
    """Why none of the modules that hold the optimizer's parameters is compiled; None if one can be."""
    if not models:
        return Refusal(Reason.NO_MODULE)
    names = [type(model).__name__ for model in models]
    if "OptimizedModule" in names or any(own_attribute(model, "_compiled_call_impl") is not None for model in models):
        return Refusal(Reason.COMPILED)
    if any("FSDP" in name or "FullySharded" in name or "DeepSpeed" in name for name in names):
        return Refusal(Reason.SHARDED)
    return not_compiled(on_gpu=any(p.device.type == "cuda" for p in parameters(models[0])))


def not_compiled(on_gpu: bool) -> Refusal | None:
    """Why nothing can be compiled here; None if it can."""
    missing = triton_missing() if on_gpu else cpp_compiler_missing()
    return Refusal(Reason.NO_COMPILER, missing) if missing else None
