"""The settings that a job is known to refuse or to have already; the only place where advice asks for them.

The record holds what `diagnose run --apply` would refuse, in the words of the target that would take the value. A
rule's change is checked in every form that `data/settings.toml` gives its settings, since each is the same change.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from diagnose.diagnosis import Patch
from diagnose.patch.job_framework import Setting, settings
from diagnose.patch.patches import spelled
from diagnose.probes.apply.allowed import holds, variable_text
from diagnose.probes.apply.reasons import JOB, PATCH
from diagnose.trace.record import CaptureRecord
from diagnose.trace.refused import Refused

ALREADY = "it is set already"
_TORCH = {"tf32": ("float32_matmul_precision", "high"), "cudnn_benchmark": ("cudnn_benchmark", True)}
_Form = tuple[str, str, Any]  # target, key, value


class Standing(msgspec.Struct, frozen=True):
    """Obstacles to a job's changes: refusals of any of its ranks, and settings that its record already has."""

    refused: tuple[Refused, ...] = ()
    record: CaptureRecord = msgspec.field(default_factory=CaptureRecord)

    @classmethod
    def of(cls, records: Iterable[tuple[Refused, ...]], record: CaptureRecord) -> "Standing":
        """Combine the refusals of all ranks with the record of one."""
        return cls(tuple(dict.fromkeys(one for rank in records for one in rank)), record)

    def against(self, patch: Patch) -> str:
        """The reason why the change must not be made here in any form; "" if there is none."""
        refusal = self._first(patch, JOB)
        if refusal is not None:
            return refusal.because
        return ALREADY if patch.set and self.in_effect(patch) == patch.set.keys() else ""

    def in_effect(self, patch: Patch) -> frozenset[str]:
        """The settings of the change that are in effect as they would be set."""
        return frozenset(key for key, value in patch.set.items() if self._has(patch.target, key, value))

    def against_run(self, patch: Patch) -> str:
        """The reason why no run can make the change, though it can be typed; "" if none is known."""
        refusal = self._first(patch, PATCH)
        return "" if refusal is None else refusal.because

    def against_setting(self, name: str, value: Any = None) -> str:
        """The reason why a setting named in a sentence must not be made here; a value of None stands for any."""
        refusal = self._first(_setting(name, value), JOB)
        return "" if refusal is None else refusal.because

    def has_setting(self, name: str, value: Any) -> bool:
        """Whether a setting named in a sentence is in effect with the value."""
        return bool(self.in_effect(_setting(name, value)))

    def _first(self, patch: Patch, binds: str) -> Refused | None:
        """The first refusal of one of the settings, by which none of the change is made."""
        there = {(target, key) for name, value in patch.set.items() for target, key, _ in _forms(patch, name, value)}
        for name, value in patch.set.items():
            forms = list(_forms(patch, name, value))
            for each in self.refused:
                spared = (each.target, each.unless_set) in there
                if each.binds == binds and not spared and any(_is_of(each, form) for form in forms):
                    return each
        return None

    def _has(self, target: str, name: str, value: Any) -> bool:
        """Whether the record shows that a setting already has the value."""
        if target == "environment":
            return holds(variable_text(value), self.record.text(f"environment.{self._variable(name)}"))
        if target == "model_kwargs":
            return name == "attn_implementation" and self.record.text("model.attn_implementation") == value
        runs = [self._runs(form) for form in _forms(Patch(target=target, set={name: value}), name, value)]
        known = [each for each in runs if each is not None]
        if known:
            return any(known)
        if target == "training_arguments" and (now := self._argument(name, value)) is not None:
            return now
        return self._torch(name)

    def _runs(self, form: _Form) -> bool | None:
        """Whether what runs has the value, whatever its trainer was asked for; None if the record does not show it."""
        target, key, value = form
        if target not in ("dataloader", "ddp", "optimizer"):
            return None
        if target == "optimizer" and self.record.text("optimizer.class") is None:
            return None
        now = self.record.get(f"{target}.{key}")
        return None if now is None and target != "optimizer" else _same(now, value)

    def _argument(self, name: str, value: Any) -> bool | None:
        """Whether the trainer's argument has the value; None if the record has no such argument."""
        known = self.record.get("training_arguments")
        if not isinstance(known, Mapping):
            return None
        same = {_newest("training_arguments", key, now) for key, now in known.items() if _is_scalar(now)}
        return (name, value) in same if any(key == name for key, _ in same) else None

    def _variable(self, name: str) -> str:
        """The variable's name in the version of torch that ran."""
        return next(iter(spelled(Patch(target="environment", set={name: ""}), self.record.get("versions")).set))

    def _torch(self, name: str) -> bool:
        key, value = _TORCH.get(name, ("", None))
        return bool(key) and _same(self.record.get(f"torch_settings.{key}"), value)


def _setting(name: str, value: Any) -> Patch:
    """A setting as rules name it in sentences."""
    target = "model_kwargs" if name in ("attn_implementation", "dtype") else "training_arguments"
    return Patch(target=target, set={name: value})


def _forms(patch: Patch, name: str, value: Any) -> Iterator[_Form]:
    """A setting as its target takes it, and as each way to make it does."""
    newest, newest_value = _newest(patch.target, name, value)
    yield patch.target, newest, newest_value
    setting = settings().get(newest) if patch.target in ("training_arguments", "model_kwargs") else None
    yield from _other_forms(setting, newest_value) if setting is not None else ()


def _other_forms(setting: Setting, value: Any) -> Iterator[_Form]:
    """Yield the setting's forms for other targets; a form with its own value means the setting switched on."""
    for way in setting.ways.values():
        takes: list[_Form] = [(way.target, way.key, way.value)]
        if way.by_run is not None:
            takes.append((way.by_run.target, way.by_run.key, way.by_run.value))
        for target, key, own in takes:
            if target and (own is None or value is not False):
                yield target, key, value if own is None else own


def _newest(target: str, name: str, value: Any) -> tuple[str, Any]:
    """The setting in the newest spelling, which rules use."""
    known = "train_sampling_strategy" if name == "group_by_length" and value is None else name
    return next(iter(spelled(Patch(target=target, set={known: value})).set.items()))


def _is_of(refused: Refused, form: _Form) -> bool:
    target, key, value = form
    named, given = _newest(refused.target, refused.key, refused.value)
    if (refused.target, named) != (target, key):
        return False
    return refused.value is None or value is None or given == value


def _same(now: Any, value: Any) -> bool:
    return now is not None and now == value


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | bool | int | float)
