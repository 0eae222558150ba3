"""For the record, the advisable changes that `--apply` would refuse: derived from the job, without trying any.

The checks are those of the patch, on the objects of torch, transformers and datasets. Refusals that only a trial finds
(fetching samples, making arguments anew) are not among them.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from ..facts.model import unwrapped
from ..facts.rows import IDS
from ..guard import quietly
from ..introspection import attributes, own_attribute, plain
from . import of_arguments, of_loader
from .compile import holding_all, not_compiled, of_torch, refused
from .device import gpu_is_there
from .of_libraries import attention_refused, plugin_refused
from .of_torch import benchmark_refused, ddp_refused, form_refused, knows_gpus
from .reasons import PATCH, Reason, Refusal

MORE = object()  # of a number: any other than the present one
ASKED: Mapping[str, Mapping[str, Any]] = {
    "training_arguments": {
        "per_device_train_batch_size": MORE,
        "gradient_accumulation_steps": MORE,
        "bf16": True,
        "fp16": True,
        "tf32": True,
        "optim": "adamw_torch_fused",
        "gradient_checkpointing": True,
        "torch_compile": True,
        "torch_compile_mode": "reduce-overhead",
        "use_liger_kernel": True,
        "dataloader_num_workers": MORE,
        "dataloader_pin_memory": True,
        "dataloader_persistent_workers": True,
        "dataloader_prefetch_factor": MORE,
        "train_sampling_strategy": "group_by_length",
        "logging_steps": MORE,
        "logging_nan_inf_filter": False,
        "skip_memory_metrics": True,
        "eval_steps": MORE,
        "save_steps": MORE,
        "ddp_find_unused_parameters": False,
        "ddp_bucket_cap_mb": MORE,
        "ddp_broadcast_buffers": False,
        "ddp_static_graph": True,
        "torch_empty_cache_steps": MORE,
    },
    "model_kwargs": {"attn_implementation": "sdpa"},
    "dataloader": {"num_workers": MORE, "persistent_workers": True, "prefetch_factor": MORE, "pin_memory": True},
    "ddp": {
        "find_unused_parameters": False,
        "gradient_as_bucket_view": True,
        "static_graph": True,
        "broadcast_buffers": False,
        "bucket_cap_mb": MORE,
    },
    "optimizer": {"fused": True, "foreach": True},
    "torch": {"cudnn_benchmark": True, "compile": True},
    "accelerator": {"dynamo_backend": "inductor"},
}
Entries = list["dict[str, object]"]
_OF_GPUS = (
    "pin_memory", "dataloader_pin_memory", "tf32", "torch_compile", "torch_compile_mode", "cudnn_benchmark",
    "use_liger_kernel",
)  # fmt: skip
_GROUPING = "train_sampling_strategy"
_MOST_KEPT = 64  # loaders: a job may make one for each pass


def of_loader_entries(loader: Any) -> Entries:
    """The changes that a DataLoader refuses; call it before the first sample is fetched, which may open files."""
    given = of_loader.held_by(loader)
    asked = {key: _other(value, given.get(key)) for key, value in _askable("dataloader")}
    return _entries("dataloader", {key: of_loader.refused(key, value, given, given) for key, value in asked.items()})


def of_trainer_entries(trainer: Any) -> Entries:
    """The changes that a Trainer of transformers refuses for its arguments, data and model; call before it trains."""
    given = attributes(trainer)
    arguments = given["args"]
    return _entries(
        of_arguments.TARGET, {key: _of_argument(key, value, arguments, given) for key, value in _asked_of(arguments)}
    )


def of_process_entries(optimizer: Any, model: Any, has_trainer: bool) -> Entries:
    """The changes that torch, the model, the optimizer and accelerate refuse at the time of the record."""
    found = _entries("torch", {"cudnn_benchmark": benchmark_refused(True)} if knows_gpus() else {})
    found += _entries("model_kwargs", {"attn_implementation": attention_refused(type(unwrapped(model)), "sdpa")})
    if "torch.nn.parallel" in sys.modules:
        found += _entries("ddp", {key: ddp_refused(key) for key in ASKED["ddp"]})
    if not has_trainer:
        found += _entries("accelerator", {"dynamo_backend": plugin_refused(_compiling_plugin()) or _nothing_compiles()})
    if optimizer is not None and not has_trainer:
        found += _entries("optimizer", {key: form_refused(optimizer, key) for key in ASKED["optimizer"]})
        found += _entries("torch", {"compile": _compiling_refused(optimizer)})
    return found


def _asked_of(arguments: Any) -> Iterator[tuple[str, Any]]:
    now = attributes(arguments)
    return ((key, _other(value, now.get(key))) for key, value in _askable(of_arguments.TARGET))


def _askable(target: str) -> list[tuple[str, Any]]:
    """Keys and values of the target that can be checked without initialising a driver."""
    return [(key, value) for key, value in ASKED[target].items() if key not in _OF_GPUS or knows_gpus()]


def _of_argument(key: str, value: Any, arguments: Any, given: Mapping[str, Any]) -> Refusal | None:
    field, set_to = of_arguments.spelled(key, value, type(arguments).__dataclass_fields__)
    refusal = of_arguments.refused(field, set_to, arguments, {})
    return refusal if refusal or field is None else of_arguments.ruled_out(field, set_to, given)


def _nothing_compiles() -> Refusal | None:
    return not_compiled(gpu_is_there()) if knows_gpus() else None


def _compiling_plugin() -> Any:
    """The plugin by which accelerate compiles; None if it does not."""
    state: Any = sys.modules.get("accelerate.state")
    plugin = state.AcceleratorState._shared_state.get("dynamo_plugin") if state is not None else None
    return None if plain(own_attribute(plugin, "backend")) in (None, "NO") else plugin


def _compiling_refused(optimizer: Any) -> Refusal | None:
    models = holding_all(optimizer)
    refusal = refused(models)
    outermost = [model for model in models if not any(_holds(other, model) for other in models)]
    return refusal or (of_torch(outermost[0]) if len(outermost) == 1 else None)


def _holds(outer: Any, inner: Any) -> bool:
    return outer is not inner and any(each is inner for each in (own_attribute(outer, "_modules") or {}).values())


def _other(asked: Any, now: Any) -> Any:
    """The value to ask about: if any value will do, one that differs from the present one."""
    return asked if asked is not MORE else 1 + (now if type(now) is int else 0)


def _entries(target: str, refusals: Mapping[str, Refusal | None]) -> Entries:
    return [
        {
            "target": target,
            "key": key,
            "value": None if ASKED[target][key] is MORE else ASKED[target][key],
            "because": refusal.because[:200],
            "binds": refusal.binds,
            "unless_set": refusal.unless_set or None,
        }
        for key, refusal in refusals.items()
        if refusal is not None
    ]


class Refusals:
    """The changes that a job refuses, gathered while its loop begins: from a loader and a Trainer before they fetch."""

    def __init__(self) -> None:
        self._loader: Entries = []
        self._trainer: Entries | None = None
        self._input_name = ""
        self._known: dict[tuple[object, ...], tuple[Any, Entries]] = {}

    def loader_begins(self, loader: Any) -> None:
        """Ask a DataLoader that is about to be iterated; the last one counts.

        The first answer for a dataset stands: files that it opens later, each worker would open for itself.
        """
        dataset = own_attribute(loader, "dataset")
        settings = (id(dataset), *(plain(own_attribute(loader, name)) for name in of_loader.ORDER))
        reference, self._loader = self._known.get(settings, (None, []))
        if reference is None or reference() is not dataset:
            self._loader = _listed(quietly(lambda: of_loader_entries(loader)))
            quietly(lambda: self._keep(settings, dataset))

    def _keep(self, settings: tuple[object, ...], dataset: Any) -> None:
        if len(self._known) < _MOST_KEPT:
            self._known[settings] = weakref.ref(dataset), self._loader

    def trainer_begins(self, trainer: Any) -> None:
        """Ask a Trainer that is about to train."""
        self._trainer = _listed(quietly(lambda: of_trainer_entries(trainer)))
        self._input_name = str(quietly(lambda: of_arguments.input_name(attributes(trainer))))

    @property
    def of_input(self) -> Entries:
        """The changes that the input refuses; a Trainer answers for its loaders."""
        return self._loader if self._trainer is None else self._trainer

    def facts(self, optimizer: Any, model: Any, rows: Mapping[str, object] | None = None) -> Entries:
        """All changes that the job refuses; `rows` are those of its batches before they were collated."""
        has_trainer = self._trainer is not None
        if has_trainer and rows and not rows["with_ids"] and self._input_name == IDS:
            self._nothing_to_group_by()
        return self.of_input + _listed(quietly(lambda: of_process_entries(optimizer, model, has_trainer)))

    def _nothing_to_group_by(self) -> None:
        """Refuse groups by length: the Trainer would find no length in samples such as those that were loaded."""
        refusals = _entries(of_arguments.TARGET, {_GROUPING: Refusal(Reason.NO_LENGTHS, IDS)})
        others = [entry for entry in self._trainer or () if (entry["key"], entry["binds"]) != (_GROUPING, PATCH)]
        if not any(entry["key"] == _GROUPING for entry in others):
            self._trainer = [*others, *refusals]


def _listed(found: object) -> Entries:
    return found if isinstance(found, list) else []
