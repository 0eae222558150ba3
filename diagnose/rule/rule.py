"""A rule: when it fires, what it says, and what to do about the fault."""

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import get_args

import msgspec
from msgspec.structs import replace

from diagnose.diagnosis import Doubt, NotAdvised, Patch, Severity
from diagnose.diagnosis.terms import RestsOn
from diagnose.errors.defects import netted
from diagnose.facts import A_DEFECT, Capture, Facts, Scalar, Unknown, in_a_sentence
from diagnose.patch.job_framework import framework_of
from diagnose.rule.assumptions import ASSUMED, assumed
from diagnose.rule.condition import Condition
from diagnose.rule.lines import Lines
from diagnose.rule.needs import OF_TRAINING, lacks, trains_nothing, unknown_needs
from diagnose.rule.remedy import Remedy
from diagnose.rule.rule_file import Answer, Effort, ExampleTable, Maturity, MechanismTable, Need, RuleClass, Target

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
PLACEHOLDER = re.compile(
    r"\{set:(?P<setting>\w+)(?:=(?P<value>[^{}]+))?\}"  # a setting, or one with its value, as this job makes it
    r"|\{(?P<fact>[^{}]*?)(?P<of>:of)?\}"  # a fact, or one with its denominator
)


class Judgement(msgspec.Struct, frozen=True):
    """A rule's answer.

    Attributes:
        answer: a severity if the rule fires, else "quiet", "unknown" or "not_advised".
        because: for "unknown" the reason why the facts it needs are unknown, for "not_advised" the reason why not.
        captures: for "unknown" everything to capture so that it can be judged.
        evidence: the facts in the comparisons that held.
        assumes: what takes the place of unknown facts that could speak against a severity's advice.
    """

    answer: Answer
    because: str = ""
    captures: tuple[Capture, ...] = ()
    evidence: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()

    @property
    def fired(self) -> bool:
        """Whether the answer is a severity."""
        return self.answer in SEVERITIES


class Unless(msgspec.Struct, frozen=True):
    """A condition and the sentence that goes with it: a precondition, advice, or the text of negative advice.

    `what` is the remedy in a few words, "" if there is none.
    """

    holds: Condition | None
    because: str
    what: str = ""


class Doubting(msgspec.Struct, frozen=True):
    """A condition under which the fault makes the verdict doubtful, and the doubt; its sentence is a template.

    The doubt withholds the verdict only if the class `unclaimed` leads; if that is empty, whichever leads.
    """

    holds: Condition
    doubt: Doubt
    unclaimed: str = ""


class PatchTemplate(msgspec.Struct, frozen=True):
    """A change of configuration whose values may be computed from facts; offered if `holds` is absent or true.

    If one of `not_when` holds instead, its sentence is the reason why the change would not help.
    """

    target: Target
    values: Mapping[str, Scalar | Condition]
    holds: Condition | None
    not_when: tuple[Unless, ...] = ()

    def withheld(self, facts: Facts) -> str:
        """The template of the sentence on why the change would not help; "" if it may help."""
        if self.holds is not None and not self.holds.evaluate(facts):
            return ""
        return next((each.because for each in self.not_when if each.holds and each.holds.evaluate(facts)), "")


class Instead(msgspec.Struct, frozen=True):
    """The alternative if the job refuses the change: advice, the same in a few words, and its effect on a step."""

    do: str
    action: str
    remedy: Remedy | None
    advice: tuple[Unless, ...] = ()


class Refusing(msgspec.Struct, frozen=True):
    """A job's objections to a rule's change.

    Attributes:
        what: the settings of the change, or of its advice.
        because: why it must not be made; "" if it may be.
        has_other: whether the rule, as it is bound, has an alternative.
        by_run: why `--apply` cannot make the change, though it can be typed; "" if it can.
    """

    what: str = ""
    because: str = ""
    has_other: bool = False
    by_run: str = ""


class Rule(msgspec.Struct, frozen=True):
    """A fault, how it is recognised, and what to do about it. `conditions` are in falling severity.

    `instead` is the alternative if a job refuses the change, and `refusing` the job's objections (`bound`).

    `set_already` are settings that its advice names and the job has, each with the literal of its value.

    `memory` is how the change shards the training state, if no setting says so: the fields of a job's sharding.

    If one of `needs` is known not to be met, the rule is quiet whatever its conditions, and has no advice.
    """

    id: str
    title: str
    class_: RuleClass
    maturity: Maturity
    needs: tuple[Need, ...]
    conditions: tuple[tuple[Severity, Condition], ...]
    says: str
    action: str
    do: str
    advice: tuple[Unless, ...]
    unless: str
    see: tuple[str, ...]
    numerics: bool
    evidence: RestsOn
    effort: Effort
    excludes: tuple[str, ...]
    remedy: Remedy | None
    patch: PatchTemplate | None
    memory: Mapping[str, Scalar | Condition]
    not_when: tuple[Unless, ...]
    lines: Lines | None
    doubts: tuple[Doubting, ...]
    negative: Unless | None
    mechanism: MechanismTable | None
    examples: tuple[ExampleTable, ...]
    path: Path
    instead: Instead | None = None
    refusing: Refusing = Refusing()
    set_already: frozenset[tuple[str, str]] = frozenset()

    @property
    def facts(self) -> frozenset[str]:
        """The facts that its severities read."""
        return frozenset().union(*(condition.names for _, condition in self.conditions))

    def judge(self, facts: Facts) -> Judgement:
        """The highest severity that holds; unknown only if none holds and one is undecided."""
        return netted(self.id, lambda: self._judged(facts), lambda told: Judgement("unknown", told, (A_DEFECT,)))

    def _judged(self, facts: Facts) -> Judgement:
        if lacks(self.needs, facts):
            return Judgement("quiet")
        undecided = []
        for severity, condition in self.conditions:
            holds = condition.evaluate(facts)
            if holds and (open_needs := unknown_needs(self.needs, facts)):
                return _unknown(open_needs, facts)
            if holds:
                evidence = condition.evidence(facts)
                fired = Judgement(severity, evidence=evidence, assumes=self._assumes(facts, evidence))
                return self._blocked(facts, evidence) or fired
            if holds is None:
                undecided.append(condition)
        if not undecided:
            return Judgement("quiet")
        return _unknown(dict.fromkeys(name for condition in undecided for name in condition.missing(facts)), facts)

    @property
    def assumptions(self) -> dict[str, str]:
        """The assumption of the advice for each fact of its preconditions, made where that is unknown."""
        names = frozenset().union(*(each.names for each in self._preconditions))
        return {name: ASSUMED[name] for name in sorted(names & ASSUMED.keys())}

    @property
    def _preconditions(self) -> list[Condition]:
        of_patch = self.patch.not_when if self.patch and not self.refusing.because else ()
        tables = (*self.not_when, *of_patch)
        return [each.holds for each in tables if each.holds is not None]

    def _assumes(self, facts: Facts, evidence: tuple[str, ...]) -> tuple[str, ...]:
        """The assumptions for unknown facts: those of undecided preconditions, and those that a default replaced."""
        undecided = (n for each in self._preconditions for n in (*each.missing(facts), *each.defaulted(facts)))
        return assumed((*evidence, *undecided), facts)

    def _blocked(self, facts: Facts, evidence: tuple[str, ...]) -> Judgement | None:
        for precondition in self.not_when:
            if precondition.holds is not None and precondition.holds.evaluate(facts):
                more = tuple(name for name in precondition.holds.evidence(facts) if name not in evidence)
                return Judgement("not_advised", self.sentence(precondition.because, facts), evidence=evidence + more)
        if self.refusing.because and not self.refusing.has_other:
            return Judgement("not_advised", self.refusing.because, evidence=evidence)
        return None

    def patch_for(self, facts: Facts) -> Patch | None:
        """The change with its values computed; values that are unknown are left out."""
        if self.patch is None or (self.patch.holds is not None and not self.patch.holds.evaluate(facts)):
            return None
        if self.refusing.because or self.patch.withheld(facts):
            return None
        values = {key: _computed(value, facts) for key, value in self.patch.values.items()}
        known = {key: value for key, value in values.items() if value is not None}
        return Patch(target=self.patch.target, set=known) if known else None

    def memory_for(self, facts: Facts) -> dict[str, int] | None:
        """The fields of `memory` with their values; None if one is unknown."""
        values = {key: _computed(value, facts) for key, value in self.memory.items()}
        known = {key: int(value) for key, value in values.items() if value is not None}
        return known if len(known) == len(values) else None

    def not_advised(self, facts: Facts, judgement: Judgement) -> NotAdvised | None:
        """The remedy that would not help: of a blocked rule, or of a quiet one whose facts are all known.

        And that of a rule that fires while its patch is withheld.
        """
        if lacks(self.needs, facts) or (self.patch and self.patch.target in OF_TRAINING and trains_nothing(facts)):
            return None
        if self.refusing.because and (judgement.fired or judgement.because == self.refusing.because):
            return NotAdvised(what=self.refusing.what, because=self.refusing.because)
        keys = ", ".join(self.patch.values) if self.patch else self.id
        what = self.negative.what if self.negative else keys
        if judgement.answer == "not_advised":
            return NotAdvised(what=what, because=judgement.because)
        if judgement.answer in SEVERITIES and self.patch and self.patch.withheld(facts):
            return NotAdvised(what=what, because=self.sentence(self.patch.withheld(facts), facts))
        if judgement.answer != "quiet" or self.negative is None:
            return None
        holds = self.negative.holds is None or self.negative.holds.evaluate(facts)
        needed = self.facts | names_in(self.negative.because)
        if not holds or not all(name in facts and facts[name].known for name in needed):
            return None
        return NotAdvised(what=self.negative.what, because=self.sentence(self.negative.because, facts))

    def doubting(self, facts: Facts) -> Doubting | None:
        """The doubt about the verdict, with its sentence filled in; None if the facts leave none."""
        found = next((each for each in self.doubts if each.holds.evaluate(facts)), None)
        return found and replace(found, doubt=replace(found.doubt, says=self.sentence(found.doubt.says, facts)))

    def advised(self, facts: Facts) -> str:
        """The advice: the first whose condition holds, else the rule's own."""
        advice = self._advice(facts)
        return self.sentence(advice.because if advice else self.do, facts)

    def action_for(self, facts: Facts) -> str:
        """The advice in a few words, "" if the rule has none."""
        advice = self._advice(facts)
        return self.sentence((advice and advice.what) or self.action, facts)

    def settings_advised(self, facts: Facts) -> tuple[tuple[str, str | None], ...]:
        """The settings that its advice names here, each with the literal of its value."""
        advice = self._advice(facts)
        said = (advice.because, advice.what or self.action) if advice else (self.do, self.action)
        places = (place for text in said for place in PLACEHOLDER.finditer(text) if place["setting"])
        return tuple(dict.fromkeys((place["setting"], place["value"]) for place in places))

    def _advice(self, facts: Facts) -> Unless | None:
        return next((each for each in self.advice if each.holds and each.holds.evaluate(facts)), None)

    def sentence(self, template: str, facts: Facts) -> str:
        """The template filled in: each fact formatted for sentences, each setting as this job makes it."""
        job_framework = framework_of(facts)

        def told(setting: str, value: str | None) -> str:
            if value is None:
                return job_framework.said(setting)
            already = " which is set already" if (setting, value) in self.set_already else ""
            return job_framework.typed(setting, literal_eval(value)) + already

        return filled(template, partial(spoken_fact, facts), told)


def filled(template: str, speak: Callable[[str, bool], str], told: Callable[[str, str | None], str]) -> str:
    """Fill in the template: `speak` gets each fact's name and whether its denominator is asked for.

    `told` gets each setting's name and the literal of its value, if it has one.
    """

    def words(place: re.Match[str]) -> str:
        if place["setting"]:
            return told(place["setting"], place["value"])
        return speak(place["fact"], place["of"] is not None)

    return PLACEHOLDER.sub(words, template)


def names_in(template: str) -> frozenset[str]:
    """The facts that a sentence mentions."""
    return frozenset(place["fact"] for place in PLACEHOLDER.finditer(template) if not place["setting"])


def _unknown(names: Iterable[str], facts: Facts) -> Judgement:
    values = [facts[name].value if name in facts else Unknown(f"{name} was not measured", None) for name in names]
    reasons = [value for value in values if isinstance(value, Unknown)]
    because = "; ".join(dict.fromkeys(reason.because for reason in reasons))
    captures = dict.fromkeys(reason.capture for reason in reasons if reason.capture)
    return Judgement("unknown", because or "a quotient in its condition has no value", tuple(captures))


def _computed(value: Scalar | Condition, facts: Facts) -> Scalar | None:
    if not isinstance(value, Condition):
        return value
    number = value.value(facts)
    return int(number) if isinstance(number, float) and number.is_integer() else number


def spoken_fact(facts: Facts, name: str, with_denominator: bool) -> str:
    """The fact as people say it within a sentence, with what it is a share of if that is asked for."""
    fact = facts.get(name)
    value = None if fact is None or isinstance(fact.value, Unknown) else fact.value
    denominator = f" of {fact.of}" if fact is not None and with_denominator else ""
    return in_a_sentence(value, fact.unit if fact else "") + denominator
