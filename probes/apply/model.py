"""Patches of transformers' models: the keywords of from_pretrained and from_config."""

from __future__ import annotations

import copy
import re
import sys
from typing import Any

from ..guard import guarded, quietly
from ..hand_over import forgive, replace_classmethod
from ..interrupts import let_out
from .constructors import refuse_all, values_for
from .job_patch import JobPatch, job_patch
from .of_libraries import attention_refused
from .reasons import Reason, Refusal

_METHODS = ("from_pretrained", "_from_config")  # those of the Auto classes end here
_DTYPES = ("dtype", "torch_dtype")
_inside = False


def install() -> None:
    """Patch the models made from now on; without a patch for them, change nothing."""
    if job_patch() is not None:
        guarded(_install, "the patch is not applied to models")


def _install() -> None:
    patch = job_patch()
    kind: Any = sys.modules["transformers.modeling_utils"].PreTrainedModel
    if patch is None or not values_for(patch, "model_kwargs"):
        return
    for method in _METHODS:
        replace_classmethod(kind, method, _patched(patch), "no patch of the model", "__diagnose_apply__")


def _patched(patch: JobPatch) -> Any:
    def made(original: Any, cls: Any, /, *args: Any, **kwargs: Any) -> Any:
        global _inside
        values = {} if _inside else _taken(patch, cls)
        if not values:
            return original(cls, *args, **kwargs)
        before = quietly(lambda: copy.deepcopy(vars(args[0]))) if args and hasattr(args[0], "to_dict") else None
        _inside = True  # parts of a composed model follow its own settings
        handled = sys.exc_info()[1]
        try:
            model = original(cls, *args, **spelled(kwargs, values))
        except Exception as error:
            let_out(error, handled)
            forgive(original)
            refuse_all(patch, "model_kwargs", values, error)
            if before is not None:
                vars(args[0]).update(before)
            return original(cls, *args, **kwargs)
        finally:
            _inside = False
        guarded(lambda: _note(patch, values, model), "the patch of the model is not noted")
        return model

    return made


def _taken(patch: JobPatch, kind: Any) -> dict[str, Any]:
    """The values that a model of this class takes; the rest is refused."""
    values = values_for(patch, "model_kwargs")
    refusal = attention_refused(kind, values.get("attn_implementation"))
    if refusal:
        patch.refuse("model_kwargs", "attn_implementation", refusal)
        values.pop("attn_implementation")
    return values


def spelled(kwargs: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The keywords with `values` in place: a dtype under the name that this transformers gives it."""
    changed = {key: value for key, value in values.items() if key not in _DTYPES}
    wanted = [value for key, value in values.items() if key in _DTYPES]
    if not wanted:
        return {**kwargs, **changed}
    torch: Any = sys.modules["torch"]
    kept = {key: value for key, value in kwargs.items() if key not in _DTYPES}
    return {**kept, **changed, dtype_name(): getattr(torch, wanted[-1])}


def dtype_name() -> str:
    """`dtype` from transformers 4.56 on, `torch_dtype` before."""
    version = getattr(sys.modules.get("transformers"), "__version__", "")
    numbers = [int(part) for part in re.findall(r"\d+", version)[:2]]
    return "dtype" if numbers >= [4, 56] or not numbers else "torch_dtype"


def _note(patch: JobPatch, values: dict[str, Any], model: Any) -> None:
    config = getattr(model[0] if isinstance(model, tuple) else model, "config", None)
    for key, value in values.items():
        used = getattr(config, f"_{key}", value) if key.endswith("_implementation") else value
        if used == value:
            patch.applied("model_kwargs", [key])
        else:
            patch.refuse("model_kwargs", key, Refusal(Reason.MODEL_TAKES, str(used)))
