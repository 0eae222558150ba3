"""Every rule, class, cause, fact and word answers with a mechanism, in whole sentences that fit the page."""

import re

import pytest
from explain_answers import MEMORY_BOUND, SLOW_LOADER, explained, known, named, printed, rules, sample
from over_all import over_all

from diagnose.commands.explain.concept import ANY_CLASS, cause_texts, concepts
from diagnose.commands.explain.explaining import explanation_of
from diagnose.commands.explain.numbers import DERIVED, constants, known_units
from diagnose.metrics import units
from diagnose.rule import names_in
from diagnose.rule.condition import Condition

SUBJECTS = [each for each in known() if each.kind != "fact"]
FACTS = [each for each in known() if each.kind == "fact"]


@over_all("subject", SUBJECTS)
def test_each_has_a_mechanism(subject) -> None:  # type: ignore[no-untyped-def]
    told = explanation_of(subject, rules())

    assert len(told.mechanism.split()) >= 12
    assert told.mechanism.endswith((".", ")"))
    assert told.formula
    assert told.title[0].isupper() or told.title[0].islower()


def test_each_fact_says_what_it_is() -> None:
    assert [str(each) for each in FACTS if not explanation_of(each, rules()).mechanism] == []


@pytest.mark.parametrize("run", [None, MEMORY_BOUND, pytest.param(SLOW_LOADER, marks=pytest.mark.long)])
def test_no_page_is_wider_than_80_columns_or_holds_a_brace(run: str | None) -> None:
    of = None if run is None else sample(run)
    for subject in known():
        page = printed(explanation_of(subject, rules(), of), run or "")
        assert max(map(len, page.splitlines())) <= 80, subject
        assert not re.search(r"\{\w+\}", page), subject


@pytest.mark.parametrize("name", concepts())
def test_a_text_names_only_numbers_that_exist(name: str) -> None:
    concept = concepts()[name]
    always = (concept.title, concept.mechanism, concept.formula, concept.without_run, concept.see_it, concept.do,
              concept.wrong_if, *concept.thresholds)  # fmt: skip

    assert frozenset().union(*map(names_in, always)) <= {*constants()}
    for each in concept.yours:
        assert names_in(each.says) <= {*known_units()}
        assert not each.if_ or Condition.parse(each.if_, known_units()).kind == "flag"


def test_a_number_that_follows_from_a_run_is_no_fact_of_it() -> None:
    assert {*DERIVED} & {*units()} == set()


@pytest.mark.parametrize("name", concepts())
def test_related_names_are_known(name: str) -> None:
    concept = concepts()[name]

    assert [related for related in concept.related if named(related).id != related] == []
    assert concept.class_ in ("", ANY_CLASS, *{rule.class_ for rule in rules().values()}, "unexplained")


def test_the_rules_about_a_cause_are_known() -> None:
    assert {rule for text in cause_texts().values() for rule in text.rules} <= {*rules()}


def test_a_rule_of_the_users_own_without_a_mechanism_has_that_of_its_class() -> None:
    from msgspec.structs import replace

    own = {**rules(), "data-wait": replace(rules()["data-wait"], mechanism=None)}

    assert explanation_of(named("data-wait"), own).mechanism == explained("data-bound").mechanism
