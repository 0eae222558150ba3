"""Templates filled with the numbers of a run: facts as people say them, settings as the job makes them."""

from ast import literal_eval
from collections.abc import Iterable

from diagnose.commands.explain.concept import Yours
from diagnose.commands.explain.conditions import fact_in_words
from diagnose.commands.explain.numbers import known_units
from diagnose.facts import Facts, Unknown
from diagnose.patch.job_framework import framework_of, in_both_words
from diagnose.report.views.plain import plain
from diagnose.rule import filled, names_in
from diagnose.rule.condition import Condition
from diagnose.rule.rule import spoken_fact


def told(template: str, facts: Facts) -> str:
    """The template filled in; a fact that is not known is called by its name."""
    framework = framework_of(facts)

    def fact(name: str, with_denominator: bool) -> str:
        return spoken_fact(facts, name, with_denominator) if _is_known(name, facts) else fact_in_words(name)

    def setting(name: str, value: str | None) -> str:
        if "training_loop" not in facts:
            return in_both_words(name, value)
        return framework.said(name) if value is None else framework.typed(name, literal_eval(value))

    return plain(filled(" ".join(template.split()), fact, setting))


def yours(sentences: Iterable[Yours], facts: Facts) -> tuple[str, ...]:
    """The sentences whose numbers are all known and whose condition holds."""
    units = known_units()
    return tuple(
        told(each.says, facts)
        for each in sentences
        if all(_is_known(name, facts) for name in names_in(each.says))
        and (not each.if_ or Condition.parse(each.if_, units).evaluate(facts))
    )


def _is_known(name: str, facts: Facts) -> bool:
    return name in facts and not isinstance(facts[name].value, Unknown)
