"""PATCH.json of `diagnose run --apply`: what is asked for, checked before the command starts."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diagnose.decoding import anything, in_order, listed, number, scalar, table, text, unreported
from diagnose.diagnosis import Patch
from diagnose.errors import UserError, printable
from diagnose.patch.expected import expected_of
from diagnose.patch.patches import is_only_typed, python_lines
from diagnose.probes.apply.allowed import variable_text, why_not
from diagnose.probes.facts.environment import ALLOCATOR, ALLOCATOR_BEFORE
from diagnose.probes.frameworks import wrappers

_LARGEST_BYTES = 64 << 20
_LONGEST = 60
_GAIN = in_order(number(0, 1e9))
_CHANGE = table({"rule": text, "patch": anything, "predicted_speedup": _GAIN, "usual_speedup": _GAIN})
_DIAGNOSIS = table(
    {
        "plan": listed(_CHANGE),
        "findings": listed(_CHANGE),
        "facts": listed(table({"name": text, "value": scalar})),
        "steps": table({"device_time_ns": number(0)}),
    }
)
"""What is read of a diagnosis; the patch in it is checked as one that comes alone."""
_FORMS = 'pass {"target": ..., "set": {...}}, a list of these, or the output of `diagnose analyze --json`'
_ALLOCATOR = (ALLOCATOR, ALLOCATOR_BEFORE)  # each torch reads one of them, or both


@dataclass(frozen=True)
class Request:
    """The part of a patch that a run may set.

    Attributes:
        wanted: the allowed values, by target and key.
        refused: target, key and reason of the others.
        expected: the prediction of the diagnosis that proposes the patch, and the step time it is based on.
    """

    wanted: Mapping[str, Mapping[str, Any]]
    refused: tuple[Mapping[str, str], ...] = ()
    expected: Mapping[str, Any] | None = None

    def to_json(self) -> str:
        """The request as JSON for the training process."""
        return json.dumps({"set": self.wanted, "refused": self.refused, "expected": self.expected})

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The environment variables to set; settings of the allocator that are there and not patched are kept."""
        variables: dict[str, str] = {}
        for name, value in self.wanted.get("environment", {}).items():
            if name in _ALLOCATOR:
                there = next((inherited[other] for other in _ALLOCATOR if inherited.get(other)), "")
                variables |= dict.fromkeys(_ALLOCATOR, _merged(there, variable_text(value)))
            else:
                variables[name] = variable_text(value)
        return variables

    def lines(self) -> list[str]:
        """The change as it is typed in code."""
        return [
            line
            for target, values in self.wanted.items()
            for line in python_lines(Patch(target=target, set=dict(values)))
        ]


def read(argument: str) -> Request:
    """The patch in FILE, or that of one rule in the diagnosis in FILE, as `FILE#RULE`.

    Raises:
        UserError: there is no such file or patch, it has another form, or nothing in it can be applied.
    """
    path, rule = split(argument)
    given, expected = _loaded(path), None
    if rule or (isinstance(given, dict) and "plan" in given):
        diagnosis = _DIAGNOSIS(given, "", unreported) or {}
        change = _of_diagnosis(diagnosis, path, rule)
        given, expected = change["patch"], expected_of(diagnosis, str(change.get("rule")))
    request = replace(_checked(_patches(given, path), path), expected=expected)
    if not request.wanted:
        why = "; ".join(f"{entry['key']}: {entry['because']}" for entry in request.refused) or "it sets nothing"
        raise UserError("nothing in the patch can be applied", where=path, why=why)
    return request


def split(argument: str) -> tuple[Path, str]:
    """The file or folder, and the rule after "#", "" if there is none."""
    file, mark, rule = argument.rpartition("#")
    return (Path(file), rule) if mark and file and not Path(argument).exists() else (Path(argument), "")


def _loaded(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST_BYTES:
            raise UserError("no patch is this large", where=path, do=_FORMS)
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError("cannot read the patch", where=path, why=error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise UserError("the patch is not JSON", where=path, why=printable(str(error)), do=_FORMS) from error


def _of_diagnosis(diagnosis: Mapping[str, Any], path: Path, rule: str) -> Any:
    """The change of `rule`, else the first planned one that has a patch.

    The plan is asked and not `next`, which may be a better capture or a change that no setting makes.
    """
    changes = [
        change
        for part in ("plan", "findings")
        for change in diagnosis.get(part) or ()
        if change.get("patch") is not None and (rule or part == "plan")
    ]
    change_of_rule = next((change for change in changes if rule in ("", change.get("rule"))), None)
    if change_of_rule is None:
        listed = ", ".join(dict.fromkeys(str(change.get("rule")) for change in changes))
        what = f"no change of rule {rule!r} with a patch" if rule else "no planned change has a patch"
        raise UserError(what, where=path, do=f"these rules have one: {printable(listed)}" if listed else "")
    return change_of_rule


def _patches(given: Any, path: Path) -> list[tuple[str, str, Any]]:
    """(target, key, value) of each setting."""
    settings = []
    for patch in given if isinstance(given, list) else [given]:
        known = patch if isinstance(patch, dict) else {}
        target, values = known.get("target"), known.get("set")
        named = set(known) - {"install", "by_run", "typed_because", "typed"} == {"target", "set"}
        if not named or not isinstance(target, str) or not isinstance(values, dict):
            raise UserError("this is not a patch", where=path, why="it needs a target and what to set", do=_FORMS)
        for where, keys in _by_run(known) if is_only_typed(target) else [(target, values)]:
            settings += [("ddp" if where in wrappers() else where, key, value) for key, value in keys.items()]
    return settings


def _by_run(patch: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The values that a run sets instead of lines to type, by target; the lines themselves if it can set nothing."""
    by_run = patch.get("by_run")
    given = by_run.items() if isinstance(by_run, dict) else ()
    return [(where, keys) for where, keys in given if isinstance(keys, dict)] or [(patch["target"], patch["set"])]


def _checked(settings: Iterable[tuple[str, str, Any]], path: Path) -> Request:
    wanted: dict[str, dict[str, Any]] = {}
    refused = []
    for target, key, value in settings:
        because = f"it is typed: no run sets {target}" if is_only_typed(target) else why_not(target, key, value)
        if because:
            refused.append({"target": _brief(target), "key": _brief(key), "because": _brief(because, 2 * _LONGEST)})
        elif wanted.get(target, {}).get(key, value) != value:
            raise UserError(f"the patches set {key} of {target} to different values", where=path)
        else:
            wanted.setdefault(target, {})[key] = value
    return Request(wanted, tuple(refused))


def _brief(text: str, longest: int = _LONGEST) -> str:
    return printable(text) if len(printable(text)) <= longest else printable(text)[: longest - 3] + "..."


def _merged(there: str, patch: str) -> str:
    """Comma-separated `name:value`, those of the patch last and once."""
    names = {setting.split(":")[0] for setting in patch.split(",")}
    kept = [setting for setting in there.split(",") if setting and setting.split(":")[0] not in names]
    return ",".join([*kept, patch])
