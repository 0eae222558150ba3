"""The language of rules: a part of Python's expressions over facts, checked when read, three-valued when evaluated."""

import ast
import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, get_args

from diagnose.errors import WrongUsage
from diagnose.facts import Facts, Scalar, Unit, Unknown
from diagnose.probes.frameworks import FRAMEWORKS

MAX_LENGTH = 500
MAX_DEPTH = 50
DIMENSIONS = frozenset(get_args(Unit)) - {"flag", "text", "factor", "version"}

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max, "abs": abs, "ceil": math.ceil}
_VALUES = {"training_loop": tuple(each.name for each in FRAMEWORKS)}  # of facts that are texts from a list
FIRST_KNOWN = "first_known"  # the only function that may be given an unknown fact


class RuleError(WrongUsage):
    """A rule that cannot be used; names the file and the key. As wrong usage it ends with exit code 2."""


@dataclass(frozen=True)
class Condition:
    """An expression over facts.

    Attributes:
        text: the expression as written.
        kind: "flag", "text", "number" (no unit, or a mixed one), or the unit of a number ("share", "ns", ...).
        names: the facts it reads.
    """

    text: str
    kind: str
    names: frozenset[str]
    tree: ast.expr = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: str, known: Mapping[str, str], where: str = "condition") -> "Condition":
        """Read and check `text` against the units of the `known` facts; `where` is "file: key"."""
        text = " ".join(text.split("\n")).strip()
        if len(text) > MAX_LENGTH:
            raise RuleError(f"an expression has at most {MAX_LENGTH} characters, this has {len(text)}", where=where)
        try:
            tree = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise _unreadable(text, error, where) from None
        kind = _Checker(text, known, where).kind(tree)
        return cls(text, kind, frozenset(_names(tree)), tree)

    def value(self, facts: Facts) -> Scalar | None:
        """The value, or None if a fact that decides it is unknown, a divisor is zero, or a number overflows."""
        answer: Scalar | None = _value(self.tree, facts)
        return answer

    def evaluate(self, facts: Facts) -> bool | None:
        """True, False, or None for unknown: `False and unknown` is False, `True or unknown` is True."""
        if self.kind != "flag":
            raise TypeError(f"{self.text!r} is a {self.kind}, not a condition")
        answer = _value(self.tree, facts)
        return None if answer is None else bool(answer)

    def evidence(self, facts: Facts) -> tuple[str, ...]:
        """The facts in the comparisons that made the condition hold, in the order written; empty if it does not."""
        return _unique(_decisive(self.tree, True, facts))

    def missing(self, facts: Facts) -> tuple[str, ...]:
        """The unknown facts that leave the condition undecided; empty if it is decided or only has no value."""
        return tuple(name for name in _unique(_decisive(self.tree, None, facts)) if _fact(name, facts) is None)

    def defaulted(self, facts: Facts) -> tuple[str, ...]:
        """The unknown facts in whose place it takes the next argument of first_known."""
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        asked = [name for call in calls if call.func.id == FIRST_KNOWN for name in _names(call.args[0])]  # type: ignore[attr-defined]
        return tuple(name for name in _unique(asked) if _fact(name, facts) is None)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """ "did you mean 'x'?" for the closest of `choices`, or nothing."""
    close = difflib.get_close_matches(word, list(choices), n=1)
    return f"did you mean '{close[0]}'?" if close else ""


def in_place_of(fact: str, value: object) -> str:
    """What to write in the place of a value that the fact never has; "" if it may have it."""
    wrong = fact in _VALUES and isinstance(value, str) and value not in _VALUES[fact]
    return f"write one of: {', '.join(_VALUES[fact])}" if wrong else ""


def kind_of_unit(unit: str) -> str:
    """The kind of a fact in a condition: units without a dimension ("factor", "number") compare with any number."""
    return unit if unit in DIMENSIONS or unit in ("flag", "text") else "number"


class _Checker:
    """Refuses what is not in the language, and finds the kind of what is."""

    def __init__(self, text: str, known: Mapping[str, str], where: str) -> None:
        self.text, self.known, self.where = text, known, where

    def kind(self, node: ast.expr, depth: int = 0) -> str:
        if depth > MAX_DEPTH:
            self.refuse(node, f"nested deeper than {MAX_DEPTH} levels")
        parts = [self.kind(child, depth + 1) for child in _operands(node)]
        match node:
            case ast.Constant(value=bool()):
                return "flag"
            case ast.Constant(value=str()):
                return "text"
            case ast.Constant(value=int() | float() as number) if not _infinite(number):
                return "number"
            case ast.Name(id=name):
                if name not in self.known:
                    self.refuse(node, f"no fact is named '{name}'", do=did_you_mean(name, self.known))
                return kind_of_unit(self.known[name])
            case ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                if set(parts) != {"flag"}:
                    self.refuse(node, "'and', 'or' and 'not' join comparisons and flags only")
                return "flag"
            case ast.UnaryOp(op=ast.USub()):
                return self.same(node, parts)
            case ast.BinOp(op=op) if type(op) in ARITHMETIC:
                return self.arithmetic(node, op, parts)
            case ast.Compare(ops=ops) if all(type(op) in COMPARISONS for op in ops):
                return self.comparison(node, ops, parts)
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in (*FUNCTIONS, FIRST_KNOWN):
                wants_one = name in ("abs", "ceil")
                if (len(parts) == 1) != wants_one or not parts:
                    self.refuse(node, f"{name} takes {'one number' if wants_one else 'two numbers or more'}")
                return self.same(node, parts)
        return self.refuse(node, f"{self.source(node)} is not part of the language", do=_LANGUAGE)

    def arithmetic(self, node: ast.expr, op: ast.operator, parts: list[str]) -> str:
        if isinstance(op, ast.Add | ast.Sub):
            return self.same(node, parts)
        left, right = (self.same(node, [part]) for part in parts)
        if isinstance(op, ast.Mult) and left in ("number", "share"):
            return right if right != "number" else left
        return left if right == "number" or (isinstance(op, ast.Mult) and right == "share") else "number"

    def comparison(self, node: ast.expr, ops: list[ast.cmpop], parts: list[str]) -> str:
        self.texts(node)
        for op, *pair in zip(ops, parts, parts[1:], strict=False):
            if "text" not in pair and "flag" not in pair:
                self.same(node, pair)
            elif pair[0] != pair[1]:
                self.refuse(node, f"{self.source(node)} compares {pair[0]} with {pair[1]}")
            elif not isinstance(op, ast.Eq | ast.NotEq):
                self.refuse(node, f"{self.source(node)} orders {pair[0]} values", do="compare them with == or !=")
        return "flag"

    def texts(self, node: ast.expr) -> None:
        """A fact is compared with texts that it can be: with another, the rule would never fire."""
        operands = _operands(node)
        for fact in (each.id for each in operands if isinstance(each, ast.Name)):
            for text in (each.value for each in operands if isinstance(each, ast.Constant)):
                if do := in_place_of(fact, text):
                    self.refuse(node, f"{fact} is never {text!r}", do=do)

    def same(self, node: ast.expr, parts: list[str]) -> str:
        """The one unit of numbers that may be added or compared."""
        if "flag" in parts or "text" in parts:
            self.refuse(node, f"{self.source(node)} calculates with {'text' if 'text' in parts else 'a flag'}")
        units = list(dict.fromkeys(kind for kind in parts if kind != "number"))
        if len(units) > 1:
            self.refuse(node, f"{self.source(node)} mixes units: {units[0]} and {units[1]}")
        return units[0] if units else "number"

    def source(self, node: ast.expr) -> str:
        return f"'{ast.get_source_segment(self.text, node)}'"

    def refuse(self, node: ast.expr, what: str, do: str = "") -> NoReturn:
        column = len(self.text.encode()[: node.col_offset].decode(errors="ignore")) + 1
        raise RuleError(what, where=f"{self.where}, column {column}", why=f"in {self.text}", do=do)


_LANGUAGE = "use facts, numbers, text, comparisons, and/or/not, + - * /, min, max, abs, ceil, first_known"


def _unreadable(text: str, error: Exception, where: str) -> RuleError:
    column = (error.offset or 1) if isinstance(error, SyntaxError) else 1
    lone = re.search(r"(?<![<>=!:])=(?!=)", text)
    if lone:
        column = lone.start() + 1
    what = "'=' does not compare" if lone else "the expression cannot be read" if text else "the expression is empty"
    reason = error.msg if isinstance(error, SyntaxError) else str(error) or type(error).__name__
    return RuleError(
        what,
        where=f"{where}, column {column}",
        why=f"{reason}, in {text}" if text else "",
        do="write == to compare" if lone else _LANGUAGE,
    )


def _infinite(number: object) -> bool:
    return isinstance(number, float) and not math.isfinite(number)


def _operands(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.BoolOp(values=values):
            return values
        case ast.UnaryOp(operand=operand):
            return [operand]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.Compare(left=left, comparators=comparators):
            return [left, *comparators]
        case ast.Call(args=args):
            return args
    return []


def _value(node: ast.expr, facts: Facts) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return _fact(node.id, facts)
    parts = [_value(child, facts) for child in _operands(node)]
    match node:
        case ast.BoolOp(op=op):
            return _joined(parts, isinstance(op, ast.Or))
        case ast.Compare(ops=ops):
            pairs = zip(ops, parts, parts[1:], strict=False)
            return _joined([_applied(COMPARISONS[type(op)], pair) for op, *pair in pairs], False)
        case ast.UnaryOp(op=ast.Not()):
            return _applied(operator.not_, parts)
        case ast.UnaryOp():
            return _applied(operator.neg, parts)
        case ast.BinOp(op=operation):
            return _applied(ARITHMETIC[type(operation)], parts)
        case ast.Call(func=ast.Name(id=name)) if name == FIRST_KNOWN:
            return next((part for part in parts if part is not None), None)
        case ast.Call(func=ast.Name(id=name)):
            return _applied(FUNCTIONS[name], parts)
    raise TypeError(ast.dump(node))  # the checker lets no other node through


def _fact(name: str, facts: Facts) -> Scalar | None:
    fact = facts.get(name)
    if fact is None or isinstance(fact.value, Unknown):
        return None
    value: Scalar = fact.value.item() if hasattr(fact.value, "item") else fact.value  # numpy's scalars are not Python's
    return None if _infinite(value) else value


def _joined(parts: list[bool | None], decisive: bool) -> bool | None:
    if decisive in parts:
        return decisive
    return None if None in parts else not decisive


def _applied(function: Callable[..., Any], parts: list[Any]) -> Any:
    if None in parts:
        return None
    try:
        result = function(*parts)
    except (ZeroDivisionError, OverflowError):
        return None
    return None if _infinite(result) else result


def _decisive(node: ast.expr, wanted: bool | None, facts: Facts) -> list[str]:
    """Facts in the leaves that give `node` the `wanted` value; none if it has another."""
    if _value(node, facts) is not wanted:
        return []
    match node:
        case ast.BoolOp(values=values):
            return [name for value in values for name in _decisive(value, wanted, facts)]
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _decisive(operand, None if wanted is None else not wanted, facts)
    return _names(node)


def _names(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Name):
        return [node.id]
    return [name for child in _operands(node) for name in _names(child)]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
