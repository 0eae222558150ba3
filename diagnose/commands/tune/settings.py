"""The settings of a run, by target and key, and how changes of them add up."""

from collections.abc import Mapping
from typing import Any

from diagnose.commands.tune.answer import Settings
from diagnose.diagnosis import Patch
from diagnose.probes.apply.allowed import why_not
from diagnose.probes.frameworks import wrappers

MICRO_BATCH, ACCUMULATION = "per_device_train_batch_size", "gradient_accumulation_steps"
CLOSE = 1.25  # numbers that lie nearer make no run of their own
WORKERS = ("dataloader_num_workers", "num_workers")
OTHER_SAMPLES = frozenset({"dataloader_drop_last"})
CADENCES = frozenset({"save_steps", "save_strategy", "eval_steps", "eval_strategy", "evaluation_strategy"})


def settings_of(patch: Patch) -> Settings:
    """The settings that a run makes for the patch."""
    if patch.by_run:
        return {target: dict(keys) for target, keys in patch.by_run.items()}
    return {("ddp" if patch.target in wrappers() else patch.target): dict(patch.set)}


def merged(before: Settings, change: Settings) -> Settings:
    """Both settings; the change's values take precedence."""
    targets = dict.fromkeys([*before, *change])
    return {target: {**before.get(target, {}), **change.get(target, {})} for target in targets}


def without(settings: Settings, other: Settings) -> Settings:
    """The settings that `other` does not hold with the same value."""
    left = {
        target: {
            key: value
            for key, value in keys.items()
            if key not in (held := other.get(target, {})) or held[key] != value
        }
        for target, keys in settings.items()
    }
    return {target: keys for target, keys in left.items() if keys}


def hardly_differs(change: Settings, known: Settings) -> bool:
    """Whether all of the change is known: with the same value, or with a number within a quarter of it."""
    return all(
        target in known and key in known[target] and _alike(value, known[target][key])
        for target, keys in change.items()
        for key, value in keys.items()
    )


def _alike(value: object, other: object) -> bool:
    if value == other or type(value) is not type(other) or not isinstance(value, int | float):
        return value == other
    low, high = sorted((float(value), float(other)))  # type: ignore[arg-type]
    return not isinstance(value, bool) and low > 0 and high <= CLOSE * low


def patches_of(settings: Settings) -> tuple[Patch, ...]:
    """The settings as patches of `diagnose run --apply`."""
    return tuple(Patch(target=target, set=dict(keys)) for target, keys in settings.items() if keys)


def value_of(settings: Settings, *names: str) -> Any:
    """The value of the first of these keys that any target sets; None if none does."""
    return next((keys[name] for keys in settings.values() for name in names if name in keys), None)


def keys_of(settings: Settings) -> set[str]:
    """The keys that any target sets."""
    return {key for keys in settings.values() for key in keys}


def can_be_set(settings: Settings) -> bool:
    """Whether a run may set all of it."""
    return not any(why_not(target, key, value) for target, keys in settings.items() for key, value in keys.items())


def keeps_global_batch(change: Settings, facts: Mapping[str, Any]) -> bool:
    """Whether the change sets only micro-batch and accumulation, and keeps their product."""
    before = whole(facts.get("micro_batch_size")), whole(facts.get("accumulation_steps"))
    keys = keys_of(change)
    if not keys or not keys <= {MICRO_BATCH, ACCUMULATION} or None in before:
        return False
    batch, steps = value_of(change, MICRO_BATCH) or before[0], value_of(change, ACCUMULATION) or before[1]
    return bool(batch * steps == before[0] * before[1])  # type: ignore[operator]


def whole(value: object) -> int | None:
    """The value as a whole number above 0; None if it is none."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and value > 0 and value == int(value)
    return int(value) if fits else None  # type: ignore[call-overload]
