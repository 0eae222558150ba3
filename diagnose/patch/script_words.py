"""A change in the words of the job's own script: its options, its overrides of a config, or the lines that it holds."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from diagnose.diagnosis import Patch
from diagnose.patch.job_framework import settings
from diagnose.patch.patches import CODE, Versions, python_lines
from diagnose.probes.frameworks import targets
from diagnose.trace.record import CaptureRecord

_ARGUMENTS = "training_arguments"
_PARSES_ARGUMENTS = ("HfArgumentParser", "TrlParser")
_CHOOSES = ("opt", "optim", "optimizer", "optimizer-name", "optimizer_name")
_FILES = (".json", ".yaml", ".yml")
_CALLED = re.compile(r"(?:\w+ = )?(?:torch\.optim\.)?(?P<name>\w+)\(\.\.\.,")
_ENDS = "TrainingArguments"
_NOW = {
    "dataloader_num_workers": "dataloader.num_workers",
    "dataloader_prefetch_factor": "dataloader.prefetch_factor",
    "per_device_train_batch_size": "dataloader.batch_size",
}
"""Where the record has the value that runs, by which an option shows that it sets it."""


class Script(msgspec.Struct, frozen=True):
    """The job's script as its record has it: options, calls, keys of its config, and the words that started it."""

    options: Sequence[Mapping[str, Any]]
    calls: Sequence[Mapping[str, Any]]
    config: Mapping[str, Any]
    command: Sequence[str]
    record: CaptureRecord

    @classmethod
    def of(cls, record: CaptureRecord) -> "Script | None":
        """The script of a record; None if the record has none."""
        known = record.get("script")
        if not isinstance(known, Mapping):
            return None
        options, calls = known.get("options") or (), known.get("calls") or ()
        return cls(options, calls, known.get("config") or {}, record.get("command") or (), record)

    def lines(self, asked: Patch, made: Patch, versions: Versions | None = None) -> tuple[str, ...]:
        """The lines to type for a change; empty if the usual ones hold.

        Args:
            asked: the change in the words of rules.
            made: the same as the framework makes it, setting by setting in the same order.
        """
        if asked.target not in (_ARGUMENTS, "model_kwargs") or len(asked.set) != len(made.set):
            return ()
        options, others = [], []
        for (name, value), (key, set_to) in zip(asked.set.items(), made.set.items(), strict=True):
            one = Patch(target=made.target, set={key: set_to})
            taken = _taken(name, value, made.target)
            option = self._option(name, taken) or self._override(name, taken) or self._parsed(one, versions)
            options += [option] if option else []
            others += [] if option else [one]
        lines = [*([" ".join(options)] if options else []), *self._at_their_places(others, versions)]
        usual = python_lines(Patch(target=made.target, set=made.set), versions)
        return () if lines == usual else tuple(lines)

    def _option(self, name: str, value: Any) -> str:
        """The script's own option with the value; "" if none is known to take it."""
        for option, passed in _options_of(name):
            for known in self.options:
                flags = known.get("flags") or ()
                flag = next((f for f in flags if f.lstrip("-").replace("-", "_").lower() == option), "")
                if not flag or not self._sets(name, flags, known.get("default")):
                    continue
                replaces = passed != "{}" and _given(self.command, flags) is not None  # what it passes on already
                if not replaces and (words := _words(known, value, passed)):
                    return " ".join((flag, *words)).rstrip()
        return ""

    def _sets(self, name: str, flags: Sequence[str], default: Any) -> bool:
        """Whether the option may set what runs: what was given for it, or its default, is what the record has."""
        runs = self.record.number(_NOW[name]) if name in _NOW else None
        given = _given(self.command, flags)
        asked = default if given is None else float(given) if given.isdecimal() else None
        return runs is None or asked is None or isinstance(asked, bool) or asked == runs

    def _override(self, name: str, value: Any) -> str:
        """Hydra's override of the one key of the config that takes the value; "" if there is none."""
        runs = self.record.number(_NOW[name]) if name in _NOW else None
        for option, passed in _options_of(name):
            keys = [key for key in self.config if key.rpartition(".")[2] == option and passed == "{}"]
            same = [key for key in keys if runs is None or self.config[key] in (None, runs)]
            if len(same) == 1:
                return f"{same[0]}={_plain(value, name)}"
        return ""

    def _parsed(self, one: Patch, versions: Versions | None) -> str:
        """The flag of a parser that makes all of the framework's arguments options; "" if the script has none."""
        [(key, value)] = one.set.items()
        if one.target == _ARGUMENTS and self._calls(*_PARSES_ARGUMENTS):
            line = python_lines(one, versions)[0]
            spelled = line.partition("..., ")[2].partition("=")[0]
            return "" if self._arguments_file else f"--{spelled} {shlex.quote(_plain(value))}"
        if one.target == "lightning_trainer" and self._calls("LightningCLI"):
            return f"--trainer.{key}={shlex.quote(_plain(value))}"
        return ""

    @property
    def _arguments_file(self) -> str:
        """The file that holds all arguments, in the place of options; "" if none does."""
        pairs = zip(("", *self.command), self.command, strict=False)
        return next(
            (word for before, word in pairs if word.endswith(_FILES) and before[:1] != "-" and "=" not in word), ""
        )

    def _at_their_places(self, patches: Sequence[Patch], versions: Versions | None) -> list[str]:
        """Lines of settings that only the script's text can make, together where they are of one call."""
        if not patches:
            return []
        together = Patch(
            target=patches[0].target, set={key: value for one in patches for key, value in one.set.items()}
        )
        return [self._at_its_place(line, together.target) for line in python_lines(together, versions)]

    def _at_its_place(self, line: str, target: str) -> str:
        """The line with the one place of the script that has such a call, or with the remark that none has one."""
        called = _CALLED.match(line)
        if called is None or "  #" in line or (target != CODE and target not in targets()):
            return line
        name, places = called["name"], self._calls(called["name"])
        if len(places) == 1:
            return f"{line}  # {places[0]['file']}:{places[0]['line']}"
        if name == _ENDS and self._calls(*_PARSES_ARGUMENTS) and self._arguments_file:
            return f"{line}  # by {self._arguments_file}"
        if places or name == _ENDS:
            return line
        option = self._chooser() if target == CODE else ""
        return f"{line}  # {option or 'wherever it is made'}: the script itself names no {name}"

    def _chooser(self) -> str:
        """The option by which the script chooses its optimizer, as a remark; "" if it has none."""
        flags = (flag for known in self.options for flag in known.get("flags") or ())
        chooser = next((flag for flag in flags if flag.lstrip("-") in _CHOOSES), "")
        return chooser and f"{chooser} chooses it"

    def _calls(self, *names: str) -> list[Mapping[str, Any]]:
        ends = names if _ENDS in names else ()
        return [call for call in self.calls if (name := str(call.get("name"))) in names or name.endswith(ends or "\0")]


def _options_of(name: str) -> Iterator[tuple[str, str]]:
    setting = settings().get(name)
    yield from setting.options.items() if setting is not None else [(name, "{}")]


def _taken(name: str, value: Any, target: str) -> Any:
    """The value that an option takes: a flag where the trainer's word for it is a name, such as a fused optimizer."""
    setting = settings().get(name) if target != _ARGUMENTS else None
    by_run = (way.by_run for way in setting.ways.values() if way.by_run is not None) if setting is not None else ()
    return next((one.value for one in by_run if isinstance(one.value, bool)), value)


def _words(known: Mapping[str, Any], value: Any, passed: str) -> tuple[str, ...]:
    """Words that follow the flag, ("",) for nothing; empty if the option does not take such a value."""
    takes = known.get("takes")
    if passed != "{}":
        return (passed,) if takes in ("value", "values") else ()
    if takes in ("nothing", "maybe"):
        return ("",) if value is True else ()
    if takes != "value" or (isinstance(value, bool) and not isinstance(known.get("default"), bool)):
        return ()
    return (shlex.quote(str(value)),) if isinstance(value, bool | int | str) else ()


def _given(command: Sequence[str], flags: Sequence[str]) -> str | None:
    """The value that the command gives last for an option; None if it does not name it."""
    found = None
    for word, after in zip(command, (*command[1:], ""), strict=True):
        flag, equals, value = word.partition("=")
        if flag in flags:
            found = value if equals else after
    return found


def _plain(value: Any, name: str = "") -> str:
    """A value as command lines and YAML have it."""
    if isinstance(value, bool):
        return str(value).lower() if name else str(value)
    return str(value)
