"""Which mutants the examples of the rules and the table of cases notice."""

from collections.abc import Mapping, Sequence

from diagnose.metrics import units
from diagnose.rule import Rule, load_rules

from .mutants import mutants
from .outcome import Case, facts_of, outcome_of
from .search import telling


def judged(cases: Mapping[str, Sequence[Case]]) -> list[tuple[str, str]]:
    """Every mutant of every builtin rule, and what notices it, "" where nothing does."""
    return [
        (mutant.label, noticed_by(mutant.rule, cases.get(rule.id, ())))
        for rule in load_rules((), units())
        for mutant in mutants(rule)
    ]


def noticed_by(mutated: Rule, cases: Sequence[Case]) -> str:
    """What of a rule's own examples and its cases the rule no longer fulfils."""
    if any(mutated.judge(facts_of(mutated, each.facts)).answer != each.expect for each in mutated.examples):
        return "examples"
    return "cases" if any(outcome_of(mutated, each.facts) != each.outcome for each in cases) else ""


def renewed(cases: Mapping[str, Sequence[Case]]) -> dict[str, list[Case]]:
    """The cases as the rules answer them now, and one more for each mutant that nothing notices, if one is found."""
    table = {}
    for rule in load_rules((), units()):
        kept = [Case(facts=each.facts, outcome=outcome_of(rule, each.facts)) for each in cases.get(rule.id, ())]
        for mutant in mutants(rule):
            if not noticed_by(mutant.rule, kept) and (case := telling(mutant, rule)):
                kept.append(case)
        if kept:
            table[rule.id] = kept
    return table
