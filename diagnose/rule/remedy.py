"""The effect of a rule's change on a step, as written in its `[whatif]`, with its factors computed from facts."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import msgspec

from diagnose.diagnosis.terms import Over
from diagnose.facts import Facts
from diagnose.rule.condition import Condition, RuleError
from diagnose.rule.rule_file import Factor, Span, Waits, WhatIfTable

Parse = Callable[[str, str], Condition]
Value = float | Condition
Values = tuple[Value, Value]
Case = Literal["best", "worst"]
LEAST_TOKENS = 0.001


class Factors(msgspec.Struct, frozen=True):
    """The factors of one case. `removed`: share of the step that goes; `tokens`: of a step, over those of now."""

    removed: float = 0.0
    kernels: Mapping[str, float] = msgspec.field(default_factory=dict)
    host: Mapping[str, float] = msgspec.field(default_factory=dict)
    launches: float = 1.0
    communication: float = 1.0
    tokens: float = 1.0
    collectives: Mapping[str, float] = msgspec.field(default_factory=dict)


class Remedy(msgspec.Struct, frozen=True):
    """The effect of a change on a step; every factor has a best and a worst case.

    Attributes:
        removes: the share of the step that disappears; it needs no replay.
        kernels: factor on the time of each group of kernels.
        fuses: groups whose kernels become one; in the worst case their launches still cost the host the same.
        host: factor on host time by cause of the breakdown.
        launches: factor on the host time of every launch outside the optimizer's step.
        communication: factor on the time of collectives.
        collectives: factor on all that collectives of a kind take, the host's work around them included.
        hides: whether collectives delay no kernel.
        waits: the calls that stop waiting for the device.
        batch: factor on the tokens of a step.
        over: the denominator of the share: "run" for something that occurs once in many steps, which a few consecutive
            steps do not show.
        beyond_transfers: whether whole collectives disappear with their host work, so that transfer time is no bound.
        warms: whether what goes stands before the rest of each step, which then finds its caches warm.
        assumes: the assumptions behind the factors, in words.
        source: the source of the factors.
    """

    removes: Values | None = None
    kernels: Mapping[str, Values] = msgspec.field(default_factory=dict)
    fuses: tuple[str, ...] = ()
    host: Mapping[str, Values] = msgspec.field(default_factory=dict)
    launches: Values | None = None
    communication: Values | None = None
    collectives: Mapping[str, Values] = msgspec.field(default_factory=dict)
    hides: bool = False
    waits: Waits | None = None
    batch: Values | None = None
    over: Over = "step"
    beyond_transfers: bool = False
    warms: bool = False
    assumes: str = ""
    source: str = ""

    @property
    def replayed(self) -> bool:
        """Whether it has changes to replay, and not only a share that disappears."""
        return bool(self.kernels or self.host or self.collectives or self.waits or self.hides) or any(
            values is not None for values in (self.launches, self.communication, self.batch)
        )

    def factors(self, facts: Facts, case: Case) -> Factors | None:
        """The factors of the best or the worst case; None if a fact that one needs is unknown."""
        at = 0 if case == "best" else 1
        kernels, host, collectives = (
            {name: number for name, values in table.items() if (number := _number(values[at], facts)) is not None}
            for table in (self.kernels, self.host, self.collectives)
        )
        each = [self.launches, self.communication, self.batch]
        single = [1.0 if values is None else _number(values[at], facts) for values in each]
        removed = 0.0 if self.removes is None else _number(self.removes[at], facts)
        launches, communication, tokens = single
        if launches is None or communication is None or tokens is None or removed is None:
            return None
        if len(kernels) + len(host) + len(collectives) < len(self.kernels) + len(self.host) + len(self.collectives):
            return None
        known = min(removed, 1.0), kernels, host, launches, communication, max(tokens, LEAST_TOKENS), collectives
        return Factors(*known)


def remedy_of(
    table: WhatIfTable,
    where: str,
    parse: Parse,
    groups: frozenset[str],
    causes: Mapping[str, tuple[str, ...]],
    works: frozenset[str],
) -> Remedy:
    """Turn the table into a Remedy: groups and causes must exist, and factors be numbers or expressions over facts.

    Args:
        table: as written.
        where: the file, for messages.
        parse: reads an expression, given its text and its key.
        groups: names of the groups of kernels.
        causes: the host causes of the breakdown that a name stands for, itself alone or several.
        works: names of what collectives of a kind take.

    Raises:
        RuleError: a name is unknown, a factor is negative, or a replay comes without its assumption.
    """
    _known(table.kernels, groups, f"{where}: whatif.kernels", "group of kernels")
    _known(dict.fromkeys(table.fuses), frozenset(table.kernels), f"{where}: whatif.fuses", "group in whatif.kernels")
    _known(table.host, frozenset(causes), f"{where}: whatif.host", "host cause")
    _known(table.collectives, works, f"{where}: whatif.collectives", "kind of collectives")
    _once([cause for name in table.host for cause in causes[name]], f"{where}: whatif.host")

    def span(values: Span, key: str) -> Values:
        return _factor(values[0], key, parse, where), _factor(values[1], key, parse, where)

    remedy = Remedy(
        removes=_removed(table, parse) if table.removes else None,
        kernels={name: span(values, f"whatif.kernels.{name}") for name, values in table.kernels.items()},
        fuses=table.fuses,
        host={
            cause: span(values, f"whatif.host.{name}") for name, values in table.host.items() for cause in causes[name]
        },
        launches=span(table.launches, "whatif.launches") if table.launches else None,
        communication=span(table.communication, "whatif.communication") if table.communication else None,
        collectives={name: span(values, f"whatif.collectives.{name}") for name, values in table.collectives.items()},
        hides=table.hides,
        waits=table.waits,
        batch=span(table.batch, "whatif.batch") if table.batch else None,
        over=table.over,
        beyond_transfers=table.beyond_transfers,
        warms=table.warms,
        assumes=" ".join((table.assumes or "").split()),
        source=table.source or "",
    )
    if remedy.removes is None and not remedy.replayed:
        raise RuleError("nothing changes", where=f"{where}: whatif", do="add removes, or a factor such as host")
    bound = not remedy.replayed and table.removes_at_least is None
    if not bound and not (remedy.assumes and remedy.source):
        key = "source" if remedy.assumes else "assumes"
        raise RuleError(f"a prediction needs its {key}", where=f"{where}: whatif.{key}", do=f"add {key} = ...")
    return remedy


def _removed(table: WhatIfTable, parse: Parse) -> Values:
    least = parse(table.removes_at_least, "whatif.removes_at_least") if table.removes_at_least else 0.0
    return parse(table.removes or "0", "whatif.removes"), least


def _known(given: Mapping[str, object], names: frozenset[str], where: str, what: str) -> None:
    for name in given:
        if name not in names:
            hint = f"one of {', '.join(sorted(names))}" if names else "there are none"
            raise RuleError(f"no {what} is named '{name}'", where=where, do=hint)


def _once(causes: Sequence[str], where: str) -> None:
    twice = [cause for cause in causes if causes.count(cause) > 1]
    if twice:
        raise RuleError(f"'{twice[0]}' has two factors", where=where, do="name it alone or with others of its kind")


def _factor(value: Factor, key: str, parse: Parse, where: str) -> Value:
    if isinstance(value, str):
        if not value.startswith("="):
            raise RuleError("a factor is a number, or a text that starts with =", where=f"{where}: {key}")
        return parse(value[1:], key)
    if value < 0:
        raise RuleError("a factor is zero or more", where=f"{where}: {key}")
    return float(value)


def _number(value: Value, facts: Facts) -> float | None:
    if not isinstance(value, Condition):
        return value
    number = value.value(facts)
    return None if number is None or isinstance(number, str) else max(float(number), 0.0)
