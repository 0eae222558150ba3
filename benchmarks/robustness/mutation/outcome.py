"""What a rule comes to in a job of which some facts are known, and the table of cases that state it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from diagnose.facts import Fact, Facts, Scalar, Unknown
from diagnose.metrics import units
from diagnose.rule import Rule
from diagnose.rule.needs import met

from . import tables

TABLE = Path(__file__).parents[3] / "tests" / "rule_boundaries.toml"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a rule comes to.

    Attributes:
        answer: of its judgement.
        advice: which of its `[[advice]]` is given, counted from 1; 0 for its `do`, and where it does not fire.
        patch: the change that goes with its finding, if there is one.
        against: whether its remedy is advised against.
        lines: whether its finding names lines of code.
    """

    answer: str
    advice: int = 0
    patch: dict[str, Any] = {}
    against: bool = False
    lines: bool = False


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a job, of which all others are unknown, and what a rule has to come to."""

    facts: dict[str, Any]
    outcome: Outcome


def outcome_of(rule: Rule, given: Mapping[str, Scalar]) -> Outcome:
    """What the rule comes to by these facts; a fact that is given as "unknown" is."""
    facts = facts_of(rule, given)
    judgement = rule.judge(facts)
    against = rule.not_advised(facts, judgement) is not None
    if not judgement.fired:
        return Outcome(answer=judgement.answer, against=against)
    holding = (number for number, each in enumerate(rule.advice, 1) if each.holds and each.holds.evaluate(facts))
    patch = rule.patch_for(facts)
    lines = rule.lines is not None and rule.lines.apply(facts)
    return Outcome(
        answer=judgement.answer,
        advice=next(holding, 0),
        patch=dict(patch.set) if patch else {},
        against=against,
        lines=lines,
    )


def facts_of(rule: Rule, given: Mapping[str, Scalar]) -> Facts:
    """The facts as a rule meets them; its needs are met where nothing else is given."""
    known = units()
    values = {name: Unknown("not given", None) if value == "unknown" else value for name, value in given.items()}
    return met(rule.needs, known) | {name: Fact(name, value, known[name]) for name, value in values.items()}


def stated() -> dict[str, list[Case]]:
    """The table: the cases of each rule."""
    return tables.read(TABLE, Case)
