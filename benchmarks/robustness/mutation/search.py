"""Cases that tell a mutant from its rule: just inside and just outside of a threshold, with a flag and without."""

import ast
import random
from collections.abc import Iterator, Mapping
from itertools import islice, product

from diagnose.facts import Scalar
from diagnose.metrics import units
from diagnose.probes.frameworks import FRAMEWORKS
from diagnose.rule import Rule, names_in
from diagnose.rule.condition import Condition

from .mutants import Mutant, conditions
from .outcome import Case, outcome_of

BESIDE = (0.9, 1.1, 0.98, 1.02)  # of a threshold: outside of it and inside, and nearer than a mutant moves it
MOST_TRIED = 20_000  # sets of facts
Given = dict[str, Scalar]


def telling(mutant: Mutant, rule: Rule) -> Case | None:
    """The case with the fewest facts that was found to tell the two apart."""

    def tells(facts: Given) -> bool:
        return outcome_of(rule, facts) != outcome_of(mutant.rule, facts)

    found = next(filter(tells, islice(_tried(mutant, rule), MOST_TRIED)), None)
    if found is None:
        return None
    for name in list(found):
        fewer = {key: value for key, value in found.items() if key != name}
        if tells(fewer) and outcome_of(rule, fewer) == outcome_of(rule, found):
            found = fewer
    return Case(facts=found, outcome=outcome_of(rule, found))


def _tried(mutant: Mutant, rule: Rule) -> Iterator[Given]:
    """The facts of the rule's examples, and nothing at all, as they are, then with one changed, then with several.

    Several are drawn: of the facts that the mutant's own condition reads in every second set, else of all.
    """
    values = _values(rule)
    read = set(values)
    own = sorted(dict(conditions(rule))[mutant.place].names)
    bases: list[Given] = [dict(example.facts) for example in rule.examples]
    bases += [{name: _nothing(name) for name in read}, {name: values[name][0] for name in read}]
    yield from bases
    for name in [*own, *sorted(read - set(own))]:
        for value, base in product(values[name], bases):
            yield base | {name: value}
    drawn = random.Random(mutant.label)
    while True:
        names = drawn.sample(sorted(read), min(len(read), drawn.randint(2, 4))) if drawn.random() < 0.5 else own
        yield drawn.choice(bases) | {name: drawn.choice(values[name]) for name in names}


def _nothing(name: str) -> Scalar:
    return {"flag": False, "text": ""}.get(units()[name], 0)  # type: ignore[return-value]


def _values(rule: Rule) -> Mapping[str, list[Scalar]]:
    """What each fact is tried at: both sides of what it is compared with, and of what such numbers make together."""
    beside: dict[str, list[Scalar]] = {name: [] for name in _spoken(rule)}
    for _, condition in conditions(rule):
        products = _products(condition.tree)
        for name in condition.names:
            beside.setdefault(name, [])
        for node in ast.walk(condition.tree):
            if isinstance(node, ast.Compare):
                for name in condition.names & {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}:
                    beside.setdefault(name, []).extend([*_near(node), *products])
    known = units()
    return {name: _fitting(known[name], near) for name, near in beside.items()}


def _near(tree: ast.expr) -> list[Scalar]:
    """Both sides of each constant."""
    return [side for node in ast.walk(tree) if isinstance(node, ast.Constant) for side in _sides(node.value)]


def _products(tree: ast.expr) -> list[Scalar]:
    """Of an expression in which a fact is so many times another: values that make both sides alike."""
    if not any(isinstance(node, ast.Mult) for node in ast.walk(tree)):
        return []
    numbers = [value for value in _near(tree) if not isinstance(value, str | bool)]
    pairs = [(one, other) for one, other in product(numbers, numbers) if other]
    return [float(f"{value:.6g}") for one, other in pairs for value in (one * other, one / other)]


def _spoken(rule: Rule) -> set[str]:
    """The facts without which there is no patch, or nothing is said against it."""
    values = rule.patch.values.values() if rule.patch else ()
    of_patch = {name for value in values if isinstance(value, Condition) for name in value.names}
    return of_patch | (names_in(rule.negative.because) if rule.negative else frozenset())


def _sides(value: Scalar) -> list[Scalar]:
    if isinstance(value, bool | str):
        return [value]
    if isinstance(value, int):
        return [value, value - 1, value + 1] if abs(value) < 10 else [round(value * side) for side in BESIDE]
    return [float(f"{value * side:.6g}") for side in BESIDE]


def _fitting(unit: str, near: list[Scalar]) -> list[Scalar]:
    """The values that a fact of this unit can have."""
    if unit == "flag":
        return [True, False]
    if unit == "text":
        texts = [value for value in near if isinstance(value, str)]
        frameworks = [each.name for each in FRAMEWORKS]  # no other name is that of a training loop
        another = next((name for name in frameworks if name not in texts), "other")
        return list(dict.fromkeys([*texts, another if {*texts} & {*frameworks} else "other"]))
    numbers = dict.fromkeys(value for value in (*near, 0, 1) if not isinstance(value, str | bool))
    return [value for value in numbers if unit != "share" or 0 <= value <= 1]
