"""A patch in the user's spellings: Python, flags of a script, accelerate's YAML, shell exports, a diff.

Names follow the versions of what runs the job, as the capture record holds them under `versions`; a version that is
not known takes the newest spelling.

- `dtype` of from_pretrained is `torch_dtype` before transformers 4.56 (huggingface/transformers pull request 39782);
- `eval_strategy` is `evaluation_strategy` before 4.41 (pull request 30190);
- `train_sampling_strategy="group_by_length"` is `group_by_length=True` before 5.2 (pull request 43138);
- `gradient_checkpointing` is `activation_checkpointing` from 5.23 on; the old name is accepted until 6;
- `PYTORCH_ALLOC_CONF` is `PYTORCH_CUDA_ALLOC_CONF` before torch 2.11: torch 2.9 reads settings of the CUDA allocator
  from the old name only (pytorch/pytorch issue 183387).
"""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from diagnose.diagnosis import Patch
from diagnose.probes.apply.allowed import ALLOWED, why_not
from diagnose.probes.facts.environment import ALLOCATOR, ALLOCATOR_BEFORE, ALLOCATOR_RENAMED_IN
from diagnose.probes.frameworks import Target, targets, wrappers

Versions = Mapping[str, Any]

CODE = "code"
_ACTIVATION_CHECKPOINTING = (5, 23)
_SAMPLING_STRATEGY = (5, 2)
_DTYPE = (4, 56)
_EVAL_STRATEGY = (4, 41)


def spelled(patch: Patch, versions: Versions | None = None) -> Patch:
    """The patch with the names that these versions use."""
    known = versions or {}
    transformers, torch = _numbers(known.get("transformers")), _numbers(known.get("torch"))
    pairs = (_spelled(patch.target, name, value, transformers, torch) for name, value in patch.set.items())
    return replace(patch, set=dict(pairs))


def python_lines(patch: Patch, versions: Versions | None = None) -> list[str]:
    """The change as typed: what is to be installed, then `TrainingArguments(..., bf16=True)`, or lines as they are.

    Settings of a configuration file are JSON, those of the environment exports.
    """
    return [*patch.install, *(patch.typed or _change_lines(patch, spelled(patch, versions).set))]


def reachable(patch: Patch) -> bool:
    """Whether `diagnose run --apply` can make the whole change, by the patch alone; the job may still refuse it."""
    if patch.typed_because:
        return False
    if patch.by_run or not patch.set:
        return bool(patch.by_run)
    target = "ddp" if patch.target in wrappers() else patch.target
    return not any(why_not(target, key, value) for key, value in patch.set.items())


def is_only_typed(target: str) -> bool:
    """Whether no run can set what goes to this target."""
    return target == CODE or (target in targets() and target not in ALLOWED and target not in wrappers())


def _change_lines(patch: Patch, change: Mapping[str, Any]) -> list[str]:
    if patch.target == "environment":
        return _exports(change)
    if patch.target == CODE:
        return [str(line) for line in change.values()]
    if not change:
        return []
    target = targets().get(patch.target, Target(patch.target, f"{patch.target}: {{}}"))
    keywords = ", ".join(f"{name}={literal(value, name)}" for name, value in change.items())
    return [target.typed.replace("{}", json.dumps(_nested(change)) if target.is_json else keywords)]


def flags(patch: Patch, versions: Versions | None = None) -> str:
    """Flags of a script that parses TrainingArguments with HfArgumentParser; empty for others, if that is known."""
    if patch.target != "training_arguments" or patch.typed:
        return ""
    change = spelled(patch, versions).set
    return " ".join(f"--{name} {shlex.quote(_text(value, on='True'))}" for name, value in change.items())


def export_lines(patch: Patch, versions: Versions | None = None) -> list[str]:
    """`export NAME=value` for each variable; none for other targets."""
    if patch.target != "environment":
        return []
    return _exports(spelled(patch, versions).set)


def diff(patch: Patch, current: Mapping[str, Any] | None = None, versions: Versions | None = None) -> str:
    """A fragment in the form of a unified diff of the call; `current` holds the settings now, by name.

    A setting whose value now is not known, or is the new one, has no line that is taken out.
    """
    target, now = targets().get(patch.target), current or {}
    call = target.call if target is not None else ""
    change = spelled(patch, versions).set
    if not call or not change:
        return ""
    lines = [f" {call}("]
    for name, value in change.items():
        if name in now and now[name] != value:
            lines.append(f"-    {name}={literal(now[name], name)},")
        lines.append(f"+    {name}={literal(value, name)},")
    return "".join(f"{line}\n" for line in [*lines, " )"])


def literal(value: Any, name: str = "") -> str:
    """A Python literal with double quotes; a dtype is torch's."""
    if name in ("dtype", "torch_dtype") and isinstance(value, str) and value.isidentifier() and value != "auto":
        return f"torch.{value}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    return repr(value)


def _exports(change: Mapping[str, Any]) -> list[str]:
    return [f"export {name}={shlex.quote(_text(value, on='1'))}" for name, value in change.items()]


def _nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`{"bf16.enabled": True}` as `{"bf16": {"enabled": True}}`."""
    nested: dict[str, Any] = {}
    for path, value in settings.items():
        *outer, last = path.split(".")
        inside = nested
        for key in outer:
            inside = inside.setdefault(key, {})
        inside[last] = value
    return nested


def _spelled(
    target: str, name: str, value: Any, transformers: tuple[int, ...], torch: tuple[int, ...]
) -> tuple[str, Any]:
    if target == "model_kwargs" and name in ("dtype", "torch_dtype"):
        return ("torch_dtype" if _before(transformers, _DTYPE) else "dtype"), value
    if target == "environment" and name in (ALLOCATOR, ALLOCATOR_BEFORE):
        return (ALLOCATOR_BEFORE if _before(torch, ALLOCATOR_RENAMED_IN) else ALLOCATOR), value
    return _argument(name, value, transformers) if target == "training_arguments" else (name, value)


def _argument(name: str, value: Any, transformers: tuple[int, ...]) -> tuple[str, Any]:
    if name in ("eval_strategy", "evaluation_strategy"):
        return ("evaluation_strategy" if _before(transformers, _EVAL_STRATEGY) else "eval_strategy"), value
    if name in ("gradient_checkpointing", "activation_checkpointing"):
        old = _before(transformers, _ACTIVATION_CHECKPOINTING) or not transformers
        return ("gradient_checkpointing" if old else "activation_checkpointing"), value
    if name in ("train_sampling_strategy", "group_by_length"):
        return _sampling(name, value, _before(transformers, _SAMPLING_STRATEGY))
    return name, value


def _sampling(name: str, value: Any, old: bool) -> tuple[str, Any]:
    grouped = value is True or value == "group_by_length"
    if old:
        return "group_by_length", grouped
    if name == "group_by_length":
        return "train_sampling_strategy", "group_by_length" if grouped else "random"
    return name, value


def _text(value: Any, on: str) -> str:
    if isinstance(value, bool):
        return on if value else {"1": "0", "True": "False"}[on]
    return json.dumps(value) if isinstance(value, dict | list | tuple) else str(value)


def _numbers(version: Any) -> tuple[int, ...]:
    """(5, 2) of "5.2.0.dev0"; empty when it is not known."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2]) if isinstance(version, str) else ()


def _before(version: tuple[int, ...], first: tuple[int, int]) -> bool:
    return bool(version) and version < first
