"""The factors of `[whatif]`: each of their numbers moved by a fifth, and whether the table of what they come to tells.

The table states for sets of facts what the remedy of a rule comes to at best and at worst.
"""

import ast
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import asdict, replace

from diagnose.facts import Fact, Facts, Scalar
from diagnose.metrics import units
from diagnose.rule import Rule, load_rules
from diagnose.rule.condition import Condition
from diagnose.rule.remedy import Remedy, Value

from . import tables
from .mutants import made, moved_by_a_fifth, replaced

TABLE = Path(__file__).parents[3] / "tests" / "whatif_factors.toml"
MOST_TRIED = 400  # sets of facts
DIGITS = 6
_SPANS = ("removes", "launches", "communication", "batch")
_TABLES = ("kernels", "host", "collectives")
_DRAWN = (0.0005, 0.03, 0.1, 0.2, 0.35, 0.5, 0.8, 0.97, 1.0, 1.2, 2.0, 5.0, 20.0)
_KNOWN = 0.85  # of the facts
Given = dict[str, Scalar]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a job, of which all others are unknown, and the factors of a remedy by them; none where unknown."""

    facts: dict[str, Any]
    best: dict[str, Any]
    worst: dict[str, Any]


class Mutant(NamedTuple):
    """A remedy with one number moved."""

    rule: str
    remedy: Remedy
    label: str


def judged(cases: Mapping[str, Sequence[Case]]) -> list[tuple[str, str]]:
    """Every mutant of every factor, and what notices it, "" where nothing does."""
    return [
        (mutant.label, "cases" if _notices(mutant.remedy, cases.get(mutant.rule, ())) else "")
        for rule in _rules()
        for mutant in mutants(rule)
    ]


def renewed(cases: Mapping[str, Sequence[Case]]) -> dict[str, list[Case]]:
    """The cases as the remedies come to now, and one more for each mutant that nothing notices, if one is found."""
    table = {}
    for rule in _rules():
        assert rule.remedy is not None
        kept = [case_of(rule.remedy, each.facts) for each in cases.get(rule.id, ())]
        for mutant in mutants(rule):
            if not _notices(mutant.remedy, kept):
                tried = (case_of(rule.remedy, facts) for facts in islice(_tried(rule), MOST_TRIED))
                kept += list(islice((case for case in tried if _notices(mutant.remedy, [case])), 1))
        table[rule.id] = kept
    return {rule: kept for rule, kept in table.items() if kept}


def case_of(remedy: Remedy, facts: Mapping[str, Scalar]) -> Case:
    """What the remedy comes to by these facts."""
    known = units()
    given: Facts = {name: Fact(name, value, known[name]) for name, value in facts.items()}
    best, worst = (_stated(remedy, given, case) for case in ("best", "worst"))
    return Case(facts=dict(facts), best=best, worst=worst)


def _stated(remedy: Remedy, facts: Facts, case: Any) -> dict[str, Any]:
    """The factors that change something, in six digits."""
    factors = remedy.factors(facts, case)
    told = {} if factors is None else asdict(factors)
    numbers = {name: float(f"{value:.{DIGITS}g}") for name, value in told.items() if isinstance(value, float)}
    tables = {
        name: {of: float(f"{factor:.{DIGITS}g}") for of, factor in value.items()}
        for name, value in told.items()
        if isinstance(value, dict)
    }
    nothing = {"removed": 0.0, "launches": 1.0, "communication": 1.0, "tokens": 1.0}
    return {name: value for name, value in (numbers | tables).items() if value != nothing.get(name, {})}


def mutants(rule: Rule) -> Iterator[Mutant]:
    """The remedy with each of its numbers moved both ways; zero and one say that nothing or all of it is left."""
    remedy = rule.remedy
    assert remedy is not None
    for place, values in _spans(remedy):
        for at, case in enumerate(("best", "worst")):
            for moved, says in _moved(values[at]):
                changed = (moved, values[1]) if at == 0 else (values[0], moved)
                yield Mutant(rule.id, _with(remedy, place, changed), f"{rule.id}: whatif.{place}, {case}: {says}")


def _spans(remedy: Remedy) -> Iterator[tuple[str, tuple[Value, Value]]]:
    for name in _SPANS:
        if (values := getattr(remedy, name)) is not None:
            yield name, values
    for name in _TABLES:
        for of, values in getattr(remedy, name).items():
            yield f"{name}.{of}", values


def _with(remedy: Remedy, place: str, values: tuple[Value, Value]) -> Remedy:
    name, _, of = place.partition(".")
    return replace(remedy, **{name: {**getattr(remedy, name), of: values} if of else values})


def _moved(value: Value) -> Iterator[tuple[Value, str]]:
    if not isinstance(value, Condition):
        for sign in (1, -1) if value not in (0.0, 1.0) else ():
            yield moved_by_a_fifth(value, sign), f"{value:g} is {moved_by_a_fifth(value, sign):g}"
        return
    for at, node in enumerate(ast.walk(value.tree)):
        if isinstance(node, ast.Constant) and node.value not in (0, 1):
            for sign in (1, -1):
                number = moved_by_a_fifth(float(node.value), sign)
                tree = replaced(value.tree, at, ast.Constant(number))
                yield made(value, tree), f"{node.value} is {number:g} in {value.text}"


def _notices(remedy: Remedy, cases: Sequence[Case]) -> bool:
    return any(case_of(remedy, each.facts) != each for each in cases)


def _rules() -> list[Rule]:
    return [rule for rule in load_rules((), units()) if rule.remedy is not None]


def _tried(rule: Rule) -> Iterator[Given]:
    """The facts of the rule's examples that the remedy reads, then drawn ones, some of them unknown."""
    assert rule.remedy is not None
    values = [value for _, pair in _spans(rule.remedy) for value in pair if isinstance(value, Condition)]
    read = sorted({name for value in values for name in value.names})
    bases = [{n: each.facts[n] for n in read if each.facts.get(n, "unknown") != "unknown"} for each in rule.examples]
    seeded, known = random.Random(rule.id), units()
    yield from (base for base in bases if len(base) == len(read))
    while True:
        yield {name: _drawn(seeded, known[name]) for name in read if seeded.random() < _KNOWN}


def _drawn(seeded: random.Random, unit: str) -> Scalar:
    if unit == "flag":
        return seeded.random() < 0.5
    return seeded.choice([value for value in _DRAWN if unit != "share" or value <= 1])


def stated() -> dict[str, list[Case]]:
    """The table: the cases of each rule."""
    return tables.read(TABLE, Case)
