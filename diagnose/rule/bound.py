"""A rule as a job binds it: a change that the job refuses, or has set already, is no advice."""

from ast import literal_eval

from msgspec.structs import replace

from diagnose.facts import Facts
from diagnose.patch.refusals import Standing
from diagnose.rule.rule import Instead, Refusing, Rule


def bound(rule: Rule, facts: Facts, standing: Standing) -> Rule:
    """Return the rule with the job's refusals of its change, and with its alternative advice if the change is refused.

    If only some of the advice is refused and there is no change to set, the rest of the advice stays.
    """
    patch = rule.patch_for(facts)
    because = standing.against(patch) if patch is not None else ""
    if patch is not None and because:
        return _refusing(rule, ", ".join(patch.set), because)
    for name, value in rule.settings_advised(facts):
        because = standing.against_setting(name, None if value is None else literal_eval(value))
        if because and (rule.instead is not None or patch is None):
            return _refusing(rule, name, because)
    rule = _without_what_is_set(rule, facts, standing)
    by_run = standing.against_run(patch) if patch is not None else ""
    return replace(rule, refusing=Refusing(by_run=by_run)) if by_run else rule


def _without_what_is_set(rule: Rule, facts: Facts, standing: Standing) -> Rule:
    """The rule without the settings of its patch that are in effect; its advice says so of those that it names."""
    patch = rule.patch_for(facts)
    in_effect = standing.in_effect(patch) if patch is not None else frozenset()
    named = ((name, value) for name, value in rule.settings_advised(facts) if value is not None)
    already = frozenset((name, value) for name, value in named if standing.has_setting(name, literal_eval(value)))
    left = rule.patch and replace(
        rule.patch, values={key: value for key, value in rule.patch.values.items() if key not in in_effect}
    )
    return replace(rule, patch=left, set_already=already) if in_effect or already else rule


def _refusing(rule: Rule, what: str, because: str) -> Rule:
    if rule.instead is None:
        return replace(rule, refusing=Refusing(what, because))
    return _with(rule, rule.instead, Refusing(what, because, has_other=True))


def _with(rule: Rule, instead: Instead, refusing: Refusing) -> Rule:
    return replace(
        rule,
        do=instead.do,
        action=instead.action or rule.action,
        advice=instead.advice,
        remedy=instead.remedy,
        refusing=refusing,
    )
