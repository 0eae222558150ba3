"""The text of a rule file made into a rule: conditions parsed, names of facts and units checked."""

from ast import literal_eval
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from diagnose.attribution.causes import HOST_GROUPS, IDLE, OPERATORS, OPTIMIZER_OPERATORS, WAITING
from diagnose.diagnosis import Doubt, Severity
from diagnose.facts import Scalar
from diagnose.metrics.communication.collective_work import WORKS
from diagnose.metrics.kernel_groups.registry import GROUPS
from diagnose.patch.job_framework import settings
from diagnose.rule.condition import Condition, RuleError, did_you_mean
from diagnose.rule.lines import Lines
from diagnose.rule.remedy import Remedy, remedy_of
from diagnose.rule.rule import PLACEHOLDER, SEVERITIES, Doubting, Instead, PatchTemplate, Rule, Unless, names_in
from diagnose.rule.rule_file import (
    AdviceTable,
    DoubtTable,
    Factor,
    LinesTable,
    MechanismTable,
    MemoryTable,
    NotWhenTable,
    PatchTable,
    RefusedTable,
    RuleFile,
    WhatIfTable,
)

_EACH: dict[str, tuple[str, ...]] = {each: (each,) for each in (*IDLE, *OPERATORS, OPTIMIZER_OPERATORS, *WAITING)}
MECHANISM_WORDS = (40, 120)
HOST_TIME = {**_EACH, **HOST_GROUPS}


def rule_of(path: Path, file: RuleFile, known: Mapping[str, str]) -> Rule:
    """The rule that the text of one file describes; `known` holds the unit of every fact."""
    return _Builder(path, file, known).rule()


class _Builder(msgspec.Struct, frozen=True):
    path: Path
    file: RuleFile
    known: Mapping[str, str]

    def rule(self) -> Rule:
        file = self.file
        return Rule(
            id=self.path.stem,
            title=file.title,
            class_=file.class_,
            maturity=file.maturity,
            needs=file.needs,
            conditions=self.conditions(),
            says=self.template(file.says, "says"),
            action=self.template(file.action or "", "action"),
            do=self.template(file.do, "do"),
            advice=self.advice(file.advice, "advice"),
            unless=self.template(file.unless, "unless"),
            see=file.see,
            numerics=file.numerics,
            evidence=file.evidence,
            effort=file.effort,
            excludes=file.excludes,
            remedy=self.remedy(file.whatif) if file.whatif else None,
            patch=self.patch(file.patch) if file.patch else None,
            instead=self.instead(file.refused) if file.refused else None,
            memory=self.memory(file.memory) if file.memory else {},
            not_when=self.not_when(file.not_when, "not_when"),
            lines=self.lines(file.lines) if file.lines else None,
            doubts=tuple(self.doubt(table, number) for number, table in enumerate(file.doubt)),
            negative=self.negative(),
            mechanism=self.mechanism(file.mechanism) if file.mechanism else None,
            examples=file.example,
            path=self.path,
        )

    def conditions(self) -> tuple[tuple[Severity, Condition], ...]:
        texts = {severity: getattr(self.file, severity) for severity in SEVERITIES}
        conditions = tuple((name, self.parse(text, name, "flag")) for name, text in texts.items() if text is not None)
        if not conditions:
            raise RuleError("no severity", where=f"{self.path}: critical", do="add critical, warning or info")
        for severity, condition in conditions:
            if not condition.names:
                raise RuleError(
                    "the condition reads no fact", where=f"{self.path}: {severity}", why=f"in {condition.text}"
                )
        return conditions

    def advice(self, tables: Iterable[AdviceTable], key: str) -> tuple[Unless, ...]:
        return tuple(
            Unless(
                self.parse(table.if_, f"{key}[{number}].if", "flag"),
                self.template(table.do, f"{key}[{number}].do"),
                self.template(table.action or "", f"{key}[{number}].action"),
            )
            for number, table in enumerate(tables)
        )

    def not_when(self, tables: Iterable[NotWhenTable], key: str) -> tuple[Unless, ...]:
        return tuple(
            Unless(
                self.parse(table.if_, f"{key}[{number}].if", "flag"),
                self.template(table.because, f"{key}[{number}].because"),
            )
            for number, table in enumerate(tables)
        )

    def lines(self, table: LinesTable) -> Lines:
        if not (table.doing or table.calls or table.excess or table.phase):
            raise RuleError(
                "the lines are not chosen", where=f"{self.path}: lines", do="add doing, calls, excess or phase"
            )
        for name in table.calls:
            if not name.isidentifier():
                raise RuleError(f"'{name}' is no name of a function", where=f"{self.path}: lines.calls")
        holds = self.parse(table.if_, "lines.if", "flag") if table.if_ else None
        return Lines(frozenset(table.doing), frozenset(table.calls), table.excess, table.phase, holds)

    def doubt(self, table: DoubtTable, number: int) -> Doubting:
        doubt = Doubt(
            kind=table.kind,
            says=self.template(table.says, f"doubt[{number}].says"),
            withholds=table.leaves == "none",
            leaves="low" if table.leaves == "none" else table.leaves,
            rule=self.path.stem,
        )
        return Doubting(self.parse(table.if_, f"doubt[{number}].if", "flag"), doubt, table.unclaimed or "")

    def negative(self) -> Unless | None:
        table = self.file.negative
        if table is None:
            return None
        holds = self.parse(table.if_, "negative.if", "flag") if table.if_ else None
        return Unless(holds, self.template(table.because, "negative.because"), table.what)

    def mechanism(self, table: MechanismTable) -> MechanismTable:
        fewest, most = MECHANISM_WORDS
        count = len(table.why.split())
        if not fewest <= count <= most:
            raise RuleError(f"{count} words, not {fewest} to {most}", where=f"{self.path}: mechanism.why")
        if (table.term == "none") != (table.axis == "none"):
            raise RuleError("term and axis are none together", where=f"{self.path}: mechanism")
        if self.file.class_ == "validity" and table.term != "none":
            why = "the rule is about the capture, whose remedy makes no step shorter"
            raise RuleError(f"no rule of validity moves {table.term}", where=f"{self.path}: mechanism.term", why=why)
        return msgspec.structs.replace(table, why=self.template(table.why, "mechanism.why"))

    def remedy(self, table: WhatIfTable) -> Remedy:
        def parse(text: str, key: str) -> Condition:
            return self.parse(text, key, "share" if key.startswith("whatif.removes") else "")

        return remedy_of(table, str(self.path), parse, frozenset(GROUPS), HOST_TIME, frozenset(WORKS))

    def patch(self, table: PatchTable) -> PatchTemplate:
        if not table.set:
            raise RuleError("the patch sets nothing", where=f"{self.path}: patch.set")
        values = {key: self.patch_value(key, value) for key, value in table.set.items()}
        holds = self.parse(table.if_, "patch.if", "flag") if table.if_ else None
        return PatchTemplate(table.target, values, holds, self.not_when(table.not_when, "patch.not_when"))

    def instead(self, table: RefusedTable) -> Instead:
        if table.keeps_whatif and (table.whatif or not self.file.whatif):
            raise RuleError("no [whatif] to keep", where=f"{self.path}: refused.keeps_whatif")
        whatif = self.file.whatif if table.keeps_whatif else table.whatif
        return Instead(
            self.template(table.do, "refused.do"),
            self.template(table.action or "", "refused.action"),
            self.remedy(whatif) if whatif else None,
            self.advice(table.advice, "refused.advice"),
        )

    def memory(self, table: MemoryTable) -> Mapping[str, Scalar | Condition]:
        given = {key: value for key, value in asdict(table).items() if value is not None}
        if not given:
            raise RuleError("nothing is divided otherwise", where=f"{self.path}: memory", do="add zero or replicas")
        return {key: self.memory_value(key, value) for key, value in given.items()}

    def memory_value(self, key: str, value: Factor) -> Scalar | Condition:
        if isinstance(value, str) and not value.startswith("="):
            why = "a number, or a text that starts with ="
            raise RuleError("no such value", where=f"{self.path}: memory.{key}", why=why)
        return self.parse(value[1:], f"memory.{key}") if isinstance(value, str) else value

    def patch_value(self, key: str, value: object) -> Scalar | Condition:
        if isinstance(value, str) and value.startswith("="):
            return self.parse(value[1:], f"patch.set.{key}")
        if not isinstance(value, str | bool | int | float):
            raise RuleError("expected text, a number, true or false", where=f"{self.path}: patch.set.{key}")
        return value

    def parse(self, text: str, key: str, wanted: str = "") -> Condition:
        condition = Condition.parse(text, self.known, f"{self.path}: {key}")
        if (wanted == "flag" and condition.kind != "flag") or (
            wanted == "share" and condition.kind not in ("share", "number")
        ):
            what = "a condition" if wanted == "flag" else "a share of the step"
            raise RuleError(f"expected {what}, got {condition.kind}", where=f"{self.path}: {key}", why=f"in {text}")
        return condition

    def template(self, text: str, key: str) -> str:
        where = f"{self.path}: {key}"
        for name in sorted(names_in(text)):
            if name not in self.known:
                raise RuleError(f"no fact is named '{name}'", where=where, do=did_you_mean(name, self.known))
        for place in PLACEHOLDER.finditer(text):
            if place["setting"]:
                self.setting(place["setting"], place["value"], where)
            if place["of"] and self.known[place["fact"]] != "share":
                raise RuleError(f"{place['fact']} is no share and has no denominator", where=where, do="leave out :of")
        if set("{}") & set(PLACEHOLDER.sub("", text)):
            raise RuleError("a lone brace", where=where, do="write {fact} for a fact, and no other braces")
        return " ".join(text.split())

    def setting(self, name: str, value: str | None, where: str) -> None:
        if name not in settings():
            raise RuleError(f"no setting is named '{name}'", where=where, do=did_you_mean(name, settings()))
        try:
            literal_eval(value or "None")
        except (ValueError, SyntaxError):
            why = "a number, a text in quotes, True or False is expected"
            raise RuleError(f"{name} has no such value", where=where, why=why) from None
