"""An unknown fact that could speak against advice is named as the assumption of the finding."""

import pytest
from click.testing import CliRunner

from diagnose.cli import main
from diagnose.cli.rule_files import all_rules
from diagnose.facts import Fact, Facts, Unknown
from diagnose.metrics import units
from diagnose.rule import Rule
from diagnose.rule.assumptions import ASSUMED, sentence_of
from diagnose.rule.needs import met

RULES = {rule.id: rule for rule in all_rules(()) if rule.assumptions}


def facts_of(rule: Rule) -> Facts:
    """The facts of its first example that fires; everything else is unknown."""
    example = next(each for each in rule.examples if each.expect in ("critical", "warning", "info"))
    known = {name: value for name, value in example.facts.items() if value != "unknown"}
    nothing = {name: Fact(name, Unknown("not measured", None), unit) for name, unit in units().items()}
    return nothing | met(rule.needs, units()) | {name: Fact(name, each, units()[name]) for name, each in known.items()}


@pytest.mark.parametrize("name", RULES)
def test_each_undecided_precondition_is_named(name: str) -> None:
    rule = RULES[name]
    facts = facts_of(rule)
    undecided = [each for each in rule._preconditions if each.evaluate(facts) is None]

    assumes = rule.judge(facts).assumes

    for each in undecided:
        assert any(ASSUMED.get(fact) in assumes for fact in each.missing(facts)), each.text


def test_it_is_a_sentence_of_the_finding() -> None:
    rule = RULES["launch-bound"]
    sentence = sentence_of(rule.judge(facts_of(rule)).assumes)

    assert "unknown here, and assumed, that" in sentence
    assert "the model is not compiled already" in sentence


def test_what_is_known_is_not_assumed() -> None:
    rule = RULES["launch-bound"]
    eager = facts_of(rule) | {name: Fact(name, False, "flag") for name in ("is_compiled", "launches_block")}

    assert rule.judge(eager).assumes == ()
    assert sentence_of(()) == ""


def test_a_default_in_the_place_of_an_unknown_fact_is_named() -> None:
    rule = RULES["exposed-communication"]
    facts = {name: fact for name, fact in facts_of(rule).items() if name != "transfer_share"}

    assert ASSUMED["transfer_share"] in rule.judge(facts).assumes
    assert ASSUMED["pipeline_share"] in rule.judge(facts).assumes  # of a precondition


def test_explain_names_them() -> None:
    told = " ".join(CliRunner().invoke(main, ["explain", "launch-bound", "--rule"]).output.split())

    assert "where is_compiled is unknown: the model is not compiled already" in told
