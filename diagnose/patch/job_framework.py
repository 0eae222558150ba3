"""A setting in the words of the training framework that runs the user's loop, or of a bare loop.

Rules name settings by one name each, those of TrainingArguments and of `from_pretrained`. `data/settings.toml` says how
each is made elsewhere. Where it is not known what runs the training loop, PyTorch's own words are used.
"""

import json
import re
import tomllib
from ast import literal_eval
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from diagnose.diagnosis import Patch
from diagnose.facts import Facts, Unknown
from diagnose.patch.patches import CODE, Versions, export_lines, literal, python_lines
from diagnose.probes.apply.allowed import why_not
from diagnose.probes.frameworks import BARE_LOOP, FRAMEWORKS, Framework, named, targets

_TABLE = Path(__file__).parents[1] / "data" / "settings.toml"
_WORD = re.compile(r"\{(\w+)\|(\w+)\}")  # a fact, or a word where it is not known
_OF_MODELS = "transformers_model"  # a way that holds for the models of transformers, whatever runs the loop
_OF_SHARDS = (
    "fully_shard",
    "hybrid_fully_shard",
)  # ways that hold where that wraps the model, by the fact `sharded_by`


class ByRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The setting that a run makes: `key` of `target`, with the setting's own value if none is given."""

    target: str
    key: str
    value: bool | int | str | None = None


class Way(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One framework's way to make a setting: by `target` and `key`, or a line of `code`; without either, a description.

    `by_run` is what `diagnose run --apply` sets to the same effect as the line. `without_training` is the line where
    nothing trains, if the other speaks of a loss or of gradients.
    """

    target: str = ""
    key: str = ""
    value: bool | int | str | None = None
    code: str | dict[str, str] = ""
    without_training: str = ""
    said: str = ""
    plain: tuple[str, ...] = ()
    by_run: ByRun | None = None


class Need(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A requirement of a setting's value: the fact that shows if it is `installed`, and the command to install it."""

    value: bool | str
    installed: str
    install: str


class Setting(msgspec.Struct, frozen=True):
    """The ways to make a setting, by the key of a framework (or `transformers_model`, or of what shards the model), and
    what it needs.

    `options` are names under which scripts take it as an option or as a key of their config, by what they pass on: "{}"
    is the value.
    `made_by` is the fact that names the framework which makes what takes the setting; "" if what runs the loop does.
    """

    ways: Mapping[str, Way]
    needs: tuple[Need, ...] = ()
    made_by: str = ""
    options: Mapping[str, str] = msgspec.field(default_factory=dict)


@lru_cache(maxsize=1)
def settings() -> Mapping[str, Setting]:
    """The settings that rules may name, by name."""
    tables = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    return {name: _setting(name, table) for name, table in tables.items()}


def _setting(name: str, table: dict[str, Any]) -> Setting:
    needs, made_by = msgspec.convert(table.pop("needs", []), tuple[Need, ...]), table.pop("made_by", "")
    options = dict.fromkeys((name, *table.pop("options", ())), "{}") | table.pop("passed_on", {})
    strange = table.keys() - {_OF_MODELS, *_OF_SHARDS, *(each.key for each in FRAMEWORKS)}
    if strange or BARE_LOOP.key not in table:
        raise LookupError(f"{name}: no framework has the key {min(strange)!r}" if strange else f"{name}: not for torch")
    return Setting(msgspec.convert(table, dict[str, Way]), needs, made_by, options)


class JobFramework(msgspec.Struct, frozen=True):
    """The runner of the training loop, by its name ("" if it is not known), and the facts of the job."""

    loop: str
    facts: Facts

    def __post_init__(self) -> None:
        """A name that is none of a framework is a defect: it would get PyTorch's own words."""
        named(self.loop or BARE_LOOP.name)

    @property
    def framework(self) -> Framework:
        """The runner of the loop; if that is not known, a bare loop, since PyTorch's own words hold for all."""
        return named(self.loop or BARE_LOOP.name)

    def patch(self, patch: Patch, versions: Versions | None = None) -> Patch | None:
        """The change as this framework makes it, with the commands to install first; None if it cannot be typed."""
        made = self._made_patch(patch, versions)
        return replace(made, by_run=self._by_run(patch)) if made is not None and made.target == CODE else made

    def _made_patch(self, patch: Patch, versions: Versions | None) -> Patch | None:
        if patch.target == "ddp":
            return Patch(target=self.framework.wrapper, set=patch.set)
        if patch.target not in ("training_arguments", "model_kwargs"):
            return patch
        parts = [(name, value, self._way(name)) for name, value in patch.set.items()]
        install = tuple(dict.fromkeys(step for name, value, way in parts for step in self._missing(name, value, way)))
        if all(way is None for _, _, way in parts):
            return Patch(target=patch.target, set=patch.set, install=install)
        made = [
            (patch.target, name, value) if way is None else self._made(name, value, way) for name, value, way in parts
        ]
        known = [one for one in made if one is not None]
        if len(known) < len(made):
            return None
        targets = {target for target, _, _ in known}
        if len(targets) > 1:  # one change in several places is typed line by line
            return Patch(target=CODE, set={one[1]: _line(*one, versions) for one in known}, install=install)
        return Patch(target=targets.pop(), set={key: value for _, key, value in known}, install=install)

    def _by_run(self, patch: Patch) -> dict[str, dict[str, Any]]:
        """The settings by which a run makes the same change, by target and key: the whole patch, or nothing."""
        wanted: dict[str, dict[str, Any]] = {}
        for name, value in patch.set.items():
            way = self._way(name)
            target, key, set_to = (patch.target, name, value) if way is None else _run_of(way, value)
            if why_not(target, key, set_to):
                return {}
            wanted.setdefault(target, {})[key] = set_to
        return wanted

    def named(self, name: str) -> str:
        """The setting's name in this framework: `dataloader_num_workers`, "num_workers of the DataLoader"."""
        way = self._way(name) if name in settings() else None
        if way is None:
            return name
        return way.said or f"{way.key} {targets()[self._target(way)].place}"

    def without_effect(self, patch: Patch) -> str:
        """A sentence on settings of a trainer that do not reach what another one makes; "" if all of them do."""
        beside = {
            name: (setting.made_by.removesuffix("_made_by"), self._maker(setting))
            for name in patch.set
            if (setting := settings().get(name)) is not None and self._maker(setting) is not self.framework
        }
        if not beside or not self.framework.has_own_words:
            return ""
        what, maker = next(iter(beside.values()))
        by = "the script" if maker is BARE_LOOP else f"the config of {maker.name}"
        has = "has" if len(beside) == 1 else "have"
        return f"{' and '.join(beside)} of the {self.framework.name} {has} no effect here: {by} makes the {what}."

    def said(self, name: str) -> str:
        """The same in a sentence, with what has to be installed first."""
        steps = self._missing(name, True, self._way(name))
        return self.named(name) + (f" (first {steps[0]})" if steps else "")

    def typed(self, name: str, value: Any) -> str:
        """The setting with its value as it is typed here: `bf16=True`, `Accelerator(..., mixed_precision="bf16")`."""
        way = self._way(name)
        steps = self._missing(name, value, way)
        first = f" (first {steps[0]})" if steps else ""
        if way is None:
            return f"{name}={literal(value, name)}{first}"
        made = self._made(name, value, way)
        return (way.said if made is None else _line(*made).split("  #")[0].removesuffix(":")) + first

    def _way(self, name: str) -> Way | None:
        """The framework's way to make the setting; None if the rules' own name is the one to type."""
        setting = settings().get(name)
        if setting is None:
            return None
        framework = self._maker(setting)
        if framework.has_own_words:
            return setting.ways.get(framework.key)
        of_transformers = self._known("model_type") is not None
        if of_transformers and name in ("attn_implementation", "dtype"):
            return None
        own = setting.ways.get(framework.key) if framework is not BARE_LOOP else None
        return (
            own
            or setting.ways.get(str(self._known("sharded_by")))
            or (setting.ways.get(_OF_MODELS) if of_transformers else None)
            or setting.ways[BARE_LOOP.key]
        )

    def _maker(self, setting: Setting) -> Framework:
        """The framework that makes what takes the setting; a trainer's own words hold for nothing else."""
        made_by = self._known(setting.made_by) if setting.made_by and self.loop else None
        return named(str(made_by)) if made_by else self.framework

    def _target(self, way: Way) -> str:
        return self.framework.wrapper if way.target == "ddp" else way.target

    def _made(self, name: str, value: Any, way: Way) -> tuple[str, str, Any] | None:
        if way.target:
            return self._target(way), way.key, value if way.value is None else way.value
        lines = way.code if isinstance(way.code, dict) else {str(value).lower(): way.code}
        line = lines.get(str(value).lower(), "")
        if way.without_training and self._known("trains") is False:
            line = way.without_training
        if not line:
            return None
        line = _WORD.sub(lambda place: str(self._known(place[1]) or place[2]), line)
        return CODE, way.key, line.replace("{value}", str(value))

    def _missing(self, name: str, value: Any, way: Way | None) -> list[str]:
        """Commands to install what the value needs, unless it is known to be installed."""
        if name not in settings() or (way is not None and value in way.plain):
            return []
        needs = (need for need in settings()[name].needs if need.value == value)
        return [need.install for need in needs if self._known(need.installed) is not True]

    def _known(self, fact: str) -> Any:
        value = self.facts[fact].value if fact in self.facts else None
        return None if isinstance(value, Unknown) else value


def _run_of(way: Way, value: Any) -> tuple[str, str, Any]:
    if way.by_run is not None:
        return way.by_run.target, way.by_run.key, value if way.by_run.value is None else way.by_run.value
    return way.target, way.key, value if way.value is None else way.value


def _line(target: str, key: str, value: Any, versions: Versions | None = None) -> str:
    return python_lines(Patch(target=target, set={key: value}), versions)[0]


def in_short(patch: Patch) -> str:
    """The settings without the call that takes them: `set num_workers=8 of the DataLoader`; "" for lines of code."""
    if patch.target == CODE or not patch.set:
        return ""
    made = [line.removeprefix("export ") for line in export_lines(patch)]
    target = targets().get(patch.target)
    in_json = target is not None and target.is_json
    made = made or [f"{k}={json.dumps(v) if in_json else literal(v, k)}" for k, v in patch.set.items()]
    return f"set {', '.join(made)}" + (f" {target.place}" if target is not None and target.place else "")


def in_both_words(name: str, value: str | None) -> str:
    """The setting, or with the literal of its value, as a bare loop and as transformers have it: for every reader."""
    job_framework = JobFramework("", {})
    if value is None:
        return f"{job_framework.said(name)} (in transformers: {name})"
    return f"{job_framework.typed(name, literal_eval(value))} (in transformers: {name}={value})"


def framework_of(facts: Facts) -> JobFramework:
    """The training framework of a job, by its fact `training_loop`; what trains nothing has no trainer to set."""
    fact, trains = facts.get("training_loop"), facts.get("trains")
    if fact is None or isinstance(fact.value, Unknown) or (trains is not None and trains.value is False):
        return JobFramework("", facts)
    return JobFramework(str(fact.value), facts)
