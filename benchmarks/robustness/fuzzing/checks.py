"""What holds of every report, whatever the input was."""

import json
import math
from functools import cache
from typing import Any

import jsonschema
import msgspec

from diagnose.commands.schema.command import answer_of
from diagnose.diagnosis import Diagnosis

NETTED = "bug in diagnose"  # what a report says in the place of a part that failed


class Wrong(Exception):
    """A report that must not be."""


def check_text(text: str) -> None:
    """A page drives no terminal, hides no failed part, and shows no traceback."""
    if "\x1b" in text:
        raise Wrong("an escape character is printed")
    if NETTED in text:
        at = text.index(NETTED)
        raise Wrong("netted: " + " ".join(text[at : at + 160].split()))
    if "Traceback (most recent call last)" in text:
        raise Wrong("a traceback is printed")


def check_diagnosis(text: str, thorough: bool) -> None:
    """The JSON is that of a Diagnosis, holds finite numbers only, and its ledger and waterfall add up.

    The schema is generated from the types by which every text is decoded; `thorough` validates by the schema too.
    """
    document = _strict(text)
    try:
        found = msgspec.json.decode(text, type=Diagnosis)
        if thorough:
            _validator().validate(document)
    except msgspec.ValidationError as error:
        raise Wrong(f"not by the types: {error}") from error
    except jsonschema.ValidationError as error:
        raise Wrong(f"not by the schema: {error.message[:150]}") from error
    _check_sums(found)


def check_answer(command: str, text: str) -> None:
    """The JSON is that of the command's answer, with finite numbers only."""
    _strict(text)
    try:
        check_finite(msgspec.json.decode(text, type=answer_of(command)))
    except msgspec.ValidationError as error:
        raise Wrong(f"not by the types: {error}") from error


def check_finite(record: object, where: str = "$") -> None:
    """No number of the record is infinite or none: JSON would hide that as null."""
    if isinstance(record, float) and not math.isfinite(record):
        raise Wrong(f"not finite: {where}")
    if isinstance(record, msgspec.Struct):
        for name in record.__struct_fields__:
            check_finite(getattr(record, name), f"{type(record).__name__}.{name}")
    elif isinstance(record, dict):
        for each in record.values():
            check_finite(each, where)
    elif isinstance(record, list | tuple):
        for each in record:
            check_finite(each, where)


def _check_sums(found: Diagnosis) -> None:
    total = found.steps.device_time_ns if found.steps.device_time_ns is not None else found.steps.time_ns
    for name, parts in (("ledger", found.ledger), ("waterfall", found.waterfall)):
        if parts and sum(part.ns for part in parts) != total:
            raise Wrong(f"the {name} does not add up")
        if any(part.ns < 0 for part in parts):
            raise Wrong(f"the {name} has a negative part")
    if found.steps.count < 0 or total < 0:
        raise Wrong("negative steps")


def _strict(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refused)
    except ValueError as error:
        raise Wrong(f"no JSON: {error}"[:150]) from error


def _refused(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


@cache
def _validator() -> Any:
    described = Diagnosis.schema()
    return jsonschema.validators.validator_for(described)(described)
