"""A rule's condition in words, with its thresholds as people say them."""

import ast
from collections.abc import Callable, Mapping

from diagnose.facts import spoken
from diagnose.metrics import REGISTRY
from diagnose.rule.condition import DIMENSIONS, FIRST_KNOWN, Condition

_COMPARED: Mapping[type[ast.cmpop], str] = {
    ast.Eq: "is",
    ast.NotEq: "is not",
    ast.Lt: "is below",
    ast.LtE: "is at most",
    ast.Gt: "is above",
    ast.GtE: "is at least",
}
_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "x", ast.Div: "/"}
_CALLED: Mapping[str, Callable[[list[str]], str]] = {
    "min": lambda parts: f"the least of {' and '.join(parts)}",
    "max": lambda parts: f"the most of {' and '.join(parts)}",
    "abs": lambda parts: f"the size of {parts[0]}",
    "ceil": lambda parts: f"{parts[0]} rounded up",
    FIRST_KNOWN: lambda parts: f"{parts[0]} (if unknown {', '.join(parts[1:])})",
}


def in_words(condition: Condition, units: Mapping[str, str]) -> str:
    """The condition as a clause: `data_wait_share > 0.20` is "data wait is above 20 %"."""
    return _Words(units).told(condition.tree)


def fact_in_words(name: str) -> str:
    """The name of a fact without its unit: "data wait" of data_wait_share."""
    for unit in ("_share", "_ns", "_bytes"):
        name = name.removesuffix(unit)
    return name.replace("_", " ").replace("gpu", "GPU")


class _Words:
    def __init__(self, units: Mapping[str, str]) -> None:
        self.units = units

    def told(self, node: ast.expr, unit: str = "") -> str:
        """The words of one part; `unit` is that of what a number in it is compared with."""
        match node:
            case ast.Constant(value=value):
                return self.constant(value, unit)
            case ast.Name(id=name):
                return fact_in_words(name)
            case ast.BoolOp(op=op, values=values):
                return (", or " if isinstance(op, ast.Or) else " and ").join(self.clause(each, op) for each in values)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"{self.whole(operand)} is no" if isinstance(operand, ast.Name) else f"not {self.whole(operand)}"
            case ast.UnaryOp(operand=operand):
                return f"-{self.whole(operand)}"
            case ast.Compare():
                return self.comparison(node)
            case ast.BinOp(left=left, op=op, right=right):
                inner = unit if isinstance(op, ast.Add | ast.Sub) else ""
                return f"{self.whole(left, inner)} {_SIGNS[type(op)]} {self.whole(right, inner)}"
            case ast.Call(func=ast.Name(id=name), args=args):
                return _CALLED[name]([self.told(each, unit) for each in args])
        raise TypeError(ast.dump(node))  # the language of rules has no other part

    def clause(self, node: ast.expr, joined_by: ast.boolop) -> str:
        words = self.told(node)
        if isinstance(node, ast.Name):
            return f"{words} is yes"
        return f"({words})" if isinstance(node, ast.BoolOp) and type(node.op) is not type(joined_by) else words

    def whole(self, node: ast.expr, unit: str = "") -> str:
        words = self.told(node, unit)
        return f"({words})" if isinstance(node, ast.BoolOp | ast.BinOp | ast.Compare) else words

    def comparison(self, node: ast.Compare) -> str:
        unit = self.unit_in(node)
        of = self.denominator(node) if unit == "share" else ""
        sides = [self.told(side, unit) for side in (node.left, *node.comparators)]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return " and ".join(f"{left} {_COMPARED[type(op)]} {right}" for left, op, right in pairs) + of

    def unit_in(self, node: ast.expr) -> str:
        names = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
        return next((unit for name in names if (unit := self.units.get(name, "")) in DIMENSIONS), "")

    def denominator(self, node: ast.Compare) -> str:
        """The denominator of the shares in a comparison that ends with a number; "" if they have several."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        of = {REGISTRY[name].of for name in names if name in REGISTRY}
        return f" of {min(of)}" if len(of) == 1 and isinstance(node.comparators[-1], ast.Constant) else ""

    def constant(self, value: object, unit: str) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, str):
            return value or "nothing"
        assert isinstance(value, int | float)
        return f"{100 * value:.3g} %" if unit == "share" else spoken(value, unit) if unit else f"{value:g}"
