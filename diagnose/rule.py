"""Rules: judgements over facts, one TOML file each, that explain themselves and carry their own tests."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from diagnose.attribution import HOST_CAUSES
from diagnose.condition import Condition, RuleError, did_you_mean
from diagnose.diagnosis import NotAdvised, Patch, Severity
from diagnose.facts import Fact, Facts, Scalar, Unknown, spoken
from diagnose.metrics import groups
from diagnose.remedy import Remedy, remedy_of
from diagnose.rule_file import (
    Answer,
    Effort,
    ExampleTable,
    Maturity,
    NotWhenTable,
    PatchTable,
    RuleClass,
    RuleFile,
    Target,
    WhatIfTable,
    read,
)

HOST_TIME = frozenset(HOST_CAUSES) | {"operator-compute", "operator-memory"}  # the latter without a GPU
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Judgement:
    """What a rule answers.

    Attributes:
        answer: a severity when the rule fires, else "quiet", "unknown" or "not_advised".
        because: for "unknown" why the facts it needs are unknown, for "not_advised" the sentence that says why not.
        capture_next: for "unknown" what to capture so that it can be judged.
        evidence: the facts in the comparisons that held.
    """

    answer: Answer
    because: str = ""
    capture_next: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unless:
    """A condition and the sentence that goes with it: a precondition, advice, or the text of negative advice."""

    holds: Condition | None
    because: str
    what: str = ""


@dataclass(frozen=True)
class PatchTemplate:
    """A change of configuration whose values may be computed from facts; offered where `holds` is absent or true.

    Where one of `not_when` holds instead, its sentence says why the change would not help.
    """

    target: Target
    values: Mapping[str, Scalar | Condition]
    holds: Condition | None
    not_when: tuple[Unless, ...] = ()

    def withheld(self, facts: Facts) -> str:
        """The template of the sentence that says why the change would not help; "" where it may."""
        if self.holds is not None and not self.holds.evaluate(facts):
            return ""
        return next((each.because for each in self.not_when if each.holds and each.holds.evaluate(facts)), "")


@dataclass(frozen=True)
class Rule:
    """A fault, how it is recognised, and what is done about it. `conditions` are in falling severity."""

    id: str
    title: str
    class_: RuleClass
    maturity: Maturity
    conditions: tuple[tuple[Severity, Condition], ...]
    says: str
    do: str
    advice: tuple[Unless, ...]
    unless: str
    see: tuple[str, ...]
    numerics: bool
    effort: Effort
    excludes: tuple[str, ...]
    remedy: Remedy | None
    patch: PatchTemplate | None
    not_when: tuple[Unless, ...]
    negative: Unless | None
    examples: tuple[ExampleTable, ...]
    path: Path

    @property
    def facts(self) -> frozenset[str]:
        """The facts that its severities read."""
        return frozenset().union(*(condition.names for _, condition in self.conditions))

    def judge(self, facts: Facts) -> Judgement:
        """The highest severity that holds; unknown only if none holds and one is undecided."""
        undecided = []
        for severity, condition in self.conditions:
            holds = condition.evaluate(facts)
            if holds:
                evidence = condition.evidence(facts)
                return self._blocked(facts, evidence) or Judgement(severity, evidence=evidence)
            if holds is None:
                undecided.append(condition)
        if not undecided:
            return Judgement("quiet")
        return _unknown(dict.fromkeys(name for condition in undecided for name in condition.missing(facts)), facts)

    def _blocked(self, facts: Facts, evidence: tuple[str, ...]) -> Judgement | None:
        for precondition in self.not_when:
            if precondition.holds is not None and precondition.holds.evaluate(facts):
                more = tuple(name for name in precondition.holds.evidence(facts) if name not in evidence)
                return Judgement("not_advised", self.sentence(precondition.because, facts), evidence=evidence + more)
        return None

    def patch_for(self, facts: Facts) -> Patch | None:
        """The change with its values computed; values that are unknown are left out."""
        if self.patch is None or (self.patch.holds is not None and not self.patch.holds.evaluate(facts)):
            return None
        if self.patch.withheld(facts):
            return None
        values = {key: _computed(value, facts) for key, value in self.patch.values.items()}
        known = {key: value for key, value in values.items() if value is not None}
        return Patch(target=self.patch.target, set=known) if known else None

    def not_advised(self, facts: Facts, judgement: Judgement) -> NotAdvised | None:
        """The remedy that would not help: of a blocked rule, or of a quiet one whose facts are all known.

        And that of a rule that fires while its patch is withheld.
        """
        keys = ", ".join(self.patch.values) if self.patch else self.id
        what = self.negative.what if self.negative else keys
        if judgement.answer == "not_advised":
            return NotAdvised(what=what, because=judgement.because)
        if judgement.answer in SEVERITIES and self.patch and self.patch.withheld(facts):
            return NotAdvised(what=what, because=self.sentence(self.patch.withheld(facts), facts))
        if judgement.answer != "quiet" or self.negative is None:
            return None
        holds = self.negative.holds is None or self.negative.holds.evaluate(facts)
        needed = self.facts | set(PLACEHOLDER.findall(self.negative.because))
        if not holds or not all(name in facts and facts[name].known for name in needed):
            return None
        return NotAdvised(what=self.negative.what, because=self.sentence(self.negative.because, facts))

    def advised(self, facts: Facts) -> str:
        """What to do: the first advice whose condition holds, else the rule's own."""
        for advice in self.advice:
            if advice.holds is not None and advice.holds.evaluate(facts):
                return self.sentence(advice.because, facts)
        return self.sentence(self.do, facts)

    def sentence(self, template: str, facts: Facts) -> str:
        """The template with each `{fact}` replaced by the fact as people say it."""
        return PLACEHOLDER.sub(lambda found: _spoken(found[1], facts), template)


def builtin_rules() -> Path:
    """The folder of the rules that come with the package: inside it in a wheel, beside it in a checkout."""
    package = Path(__file__).parent
    return next((path for path in (package / "rules", package.parent / "rules") if path.is_dir()), package / "rules")


def load_rules(dirs: Iterable[Path], known: Mapping[str, str]) -> tuple[Rule, ...]:
    """The builtin rules and those in `dirs`, by name; a file replaces one of the same stem in an earlier folder.

    Args:
        dirs: the user's folders of rule files.
        known: the unit of every fact.
    """
    files: dict[str, Path] = {}
    for folder in (builtin_rules(), *dirs):
        found = sorted(folder.glob("*.toml"))
        if not found:
            raise RuleError("no rule files (*.toml) in this folder", where=folder)
        files |= {path.stem: path for path in found}
    return tuple(load_rule(files[stem], known) for stem in sorted(files))


def load_rule(path: Path, known: Mapping[str, str]) -> Rule:
    """Read and check one rule file, examples included; `known` holds the unit of every fact."""
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", path.stem):
        raise RuleError("a rule file is named after its fault, such as data-wait.toml", where=path)
    rule = _Builder(path, read(path), known).rule()
    for number, example in enumerate(rule.examples):
        _try_example(rule, example, known, f"{path}: example[{number}]")
    expected = {example.expect for example in rule.examples}
    for what, answers in (("fires", set(SEVERITIES)), ("stays quiet", {"quiet"})):
        if not expected & answers:
            hint = f"add one whose expect is {' or '.join(sorted(answers))}"
            raise RuleError(f"no example in which the rule {what}", where=f"{path}: example", do=hint)
    return rule


@dataclass(frozen=True)
class _Builder:
    """Turns the text of one rule file into a rule."""

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
            conditions=self.conditions(),
            says=self.template(file.says, "says"),
            do=self.template(file.do, "do"),
            advice=tuple(
                Unless(
                    self.parse(table.if_, f"advice[{number}].if", "flag"),
                    self.template(table.do, f"advice[{number}].do"),
                )
                for number, table in enumerate(file.advice)
            ),
            unless=self.template(file.unless, "unless"),
            see=file.see,
            numerics=file.numerics,
            effort=file.effort,
            excludes=file.excludes,
            remedy=self.remedy(file.whatif) if file.whatif else None,
            patch=self.patch(file.patch) if file.patch else None,
            not_when=self.not_when(file.not_when, "not_when"),
            negative=self.negative(),
            examples=file.example,
            path=self.path,
        )

    def conditions(self) -> tuple[tuple[Severity, Condition], ...]:
        texts = {severity: getattr(self.file, severity) for severity in SEVERITIES}
        found = tuple((name, self.parse(text, name, "flag")) for name, text in texts.items() if text is not None)
        if not found:
            raise RuleError("no severity", where=f"{self.path}: critical", do="add critical, warning or info")
        for severity, condition in found:
            if not condition.names:
                raise RuleError(
                    "the condition reads no fact", where=f"{self.path}: {severity}", why=f"in {condition.text}"
                )
        return found

    def not_when(self, tables: Iterable[NotWhenTable], key: str) -> tuple[Unless, ...]:
        return tuple(
            Unless(
                self.parse(table.if_, f"{key}[{number}].if", "flag"),
                self.template(table.because, f"{key}[{number}].because"),
            )
            for number, table in enumerate(tables)
        )

    def negative(self) -> Unless | None:
        table = self.file.negative
        if table is None:
            return None
        holds = self.parse(table.if_, "negative.if", "flag") if table.if_ else None
        return Unless(holds, self.template(table.because, "negative.because"), table.what)

    def remedy(self, table: WhatIfTable) -> Remedy:
        def parse(text: str, key: str) -> Condition:
            return self.parse(text, key, "share" if key.startswith("whatif.removes") else "")

        return remedy_of(table, str(self.path), parse, frozenset(groups.NAMES), HOST_TIME)

    def patch(self, table: PatchTable) -> PatchTemplate:
        if not table.set:
            raise RuleError("the patch sets nothing", where=f"{self.path}: patch.set")
        values = {key: self.patch_value(key, value) for key, value in table.set.items()}
        holds = self.parse(table.if_, "patch.if", "flag") if table.if_ else None
        return PatchTemplate(table.target, values, holds, self.not_when(table.not_when, "patch.not_when"))

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
        for name in PLACEHOLDER.findall(text):
            if name not in self.known:
                raise RuleError(f"no fact is named '{name}'", where=where, do=did_you_mean(name, self.known))
        if set("{}") & set(PLACEHOLDER.sub("", text)):
            raise RuleError("a lone brace", where=where, do="write {fact} for a fact, and no other braces")
        return " ".join(text.split())


def _try_example(rule: Rule, example: ExampleTable, known: Mapping[str, str], where: str) -> None:
    facts = {name: _example_fact(name, value, known, f"{where}.facts.{name}") for name, value in example.facts.items()}
    judgement = rule.judge(facts)
    if judgement.answer != example.expect:
        raise RuleError(
            f"the example '{example.name}' expects {example.expect} and gets {judgement.answer}",
            where=f"{where}.expect",
            why=judgement.because or ", ".join(f"{name} = {facts[name].value}" for name in judgement.evidence),
        )


def _example_fact(name: str, value: object, known: Mapping[str, str], where: str) -> Fact:
    if name not in known:
        raise RuleError(f"no fact is named '{name}'", where=where, do=did_you_mean(name, known))
    if value == "unknown":
        return Fact(name, Unknown("the example says so", ""), known[name])
    kind = known[name] if known[name] in ("flag", "text") else "number"
    found = "flag" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
    if found != kind or not isinstance(value, bool | str | int | float):
        raise RuleError(f"{name} is a {kind}, not {value!r}", where=where)
    return Fact(name, value, known[name])


def _unknown(names: Iterable[str], facts: Facts) -> Judgement:
    values = [facts[name].value if name in facts else Unknown(f"{name} was not measured", "") for name in names]
    reasons = [value for value in values if isinstance(value, Unknown)]
    because = "; ".join(dict.fromkeys(reason.because for reason in reasons))
    capture_next = "; ".join(dict.fromkeys(reason.capture_next for reason in reasons if reason.capture_next))
    return Judgement("unknown", because or "a quotient in its condition has no value", capture_next)


def _computed(value: Scalar | Condition, facts: Facts) -> Scalar | None:
    if not isinstance(value, Condition):
        return value
    number = value.value(facts)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def _spoken(name: str, facts: Facts) -> str:
    fact = facts.get(name)
    return spoken(None, "") if fact is None or isinstance(fact.value, Unknown) else spoken(fact.value, fact.unit)
