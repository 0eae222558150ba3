"""The mutants of a rule: its conditions, one after the other, with a number moved or a comparison negated."""

import ast
import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from diagnose.rule import Rule
from diagnose.rule.condition import Condition

BY = 0.2


@dataclass(frozen=True)
class Mutant:
    """A rule with one change.

    Attributes:
        rule: as it is after the change.
        place: the key of the condition, such as "critical" or "advice[2].if".
        says: what was made of what.
    """

    rule: Rule
    place: str
    says: str

    @property
    def label(self) -> str:
        """The mutant in one line."""
        return f"{self.rule.id}: {self.place}: {self.says}"


def mutants(rule: Rule) -> Iterator[Mutant]:
    """Every mutant of the rule."""
    for place, condition in conditions(rule):
        for changed, says in _changed(condition):
            yield Mutant(_with(rule, place, changed), place, says)


def conditions(rule: Rule) -> Iterator[tuple[str, Condition]]:
    """The conditions of a rule by their keys."""
    yield from rule.conditions
    several = {
        "advice": rule.advice,
        "not_when": rule.not_when,
        "patch.not_when": rule.patch.not_when if rule.patch else (),
    }
    for key, each in several.items():
        for number, one in enumerate(each):
            if one.holds:
                yield f"{key}[{number}].if", one.holds
    for key, single in (("patch.if", rule.patch), ("negative.if", rule.negative), ("lines.if", rule.lines)):
        if single is not None and single.holds:
            yield key, single.holds


def _with(rule: Rule, place: str, changed: Condition) -> Rule:
    """The rule with another condition at the place."""
    key, _, rest = place.removesuffix(".if").partition("[")
    if key in dict(rule.conditions):
        return replace(rule, conditions=tuple((name, changed if name == key else old) for name, old in rule.conditions))
    holder = rule.patch if key.startswith("patch") else rule
    field = key.removeprefix("patch.")
    if not rest:
        part = rule.patch if field == "patch" else getattr(rule, field)
        return replace(rule, **{field: replace(part, holds=changed)})
    each = list(getattr(holder, field))
    at = int(rest.rstrip("]"))
    each[at] = replace(each[at], holds=changed)
    made = replace(holder, **{field: tuple(each)})
    return replace(rule, patch=made) if holder is rule.patch else made


def _changed(condition: Condition) -> Iterator[tuple[Condition, str]]:
    """The condition with each of its numbers moved both ways, and with each of its comparisons negated."""
    nodes = list(ast.walk(condition.tree))
    for at, node in enumerate(nodes):
        if isinstance(node, ast.Constant) and not isinstance(node.value, bool | str) and node.value:
            for sign in (1, -1):
                moved = moved_by_a_fifth(node.value, sign)
                tree = replaced(condition.tree, at, ast.Constant(moved))
                yield made(condition, tree), f"{node.value} is {moved} in {condition.text}"
        elif _is_decided(node, condition):
            tree = replaced(condition.tree, at, ast.UnaryOp(ast.Not(), copy.deepcopy(node)))
            yield made(condition, tree), f"not ({ast.unparse(node)}) in {condition.text}"


def moved_by_a_fifth(number: float, sign: int) -> float:
    """A fifth more or less; a whole number by at least one, since counts between two of them are none."""
    if isinstance(number, int):
        return number + sign * math.ceil(BY * number)
    return float(f"{number * (1 + sign * BY):.6g}")


def _is_decided(node: ast.AST, condition: Condition) -> bool:
    """Whether it is a comparison, a flag, or the whole of several of them."""
    if node is condition.tree or isinstance(node, ast.Compare):
        return True
    flags = (n for parent in ast.walk(condition.tree) if isinstance(parent, ast.BoolOp) for n in parent.values)
    return isinstance(node, ast.Name) and any(node is flag for flag in flags)


def replaced(tree: ast.expr, at: int, new: ast.expr) -> ast.expr:
    """A copy of the tree with another node in the place of the one that is walked as number `at`."""
    made = copy.deepcopy(tree)
    old = list(ast.walk(made))[at]
    if old is made:
        return new

    class Put(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            return new if node is old else self.generic_visit(node)

    put: ast.expr = Put().visit(made)
    return put


def made(condition: Condition, tree: ast.expr) -> Condition:
    """The condition with another tree."""
    return Condition(ast.unparse(ast.fix_missing_locations(tree)), condition.kind, condition.names, tree)
