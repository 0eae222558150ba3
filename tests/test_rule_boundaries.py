"""Each rule just inside and just outside of each of its thresholds, and with and without each of its conditions.

`python -m benchmarks.robustness.mutation --renew` writes the cases of `rule_boundaries.toml` and `whatif_factors.toml`
anew: read the diff.
"""

from pathlib import Path

import pytest
from over_all import over_all
from robustness.mutation import whatifs
from robustness.mutation.judging import judged
from robustness.mutation.mutants import mutants
from robustness.mutation.outcome import Case, outcome_of, stated
from robustness.mutation.page import MOST_SURVIVING
from small_rules import CONDITIONS, EXAMPLES, HEAD, SMALL, facts, known, written

from diagnose.rule import load_rule, load_rules

RENEW = "python -m benchmarks.robustness.mutation --renew"
RULES = {rule.id: rule for rule in load_rules((), known())}
TABLE = stated()


def test_the_table_is_of_rules_that_there_are() -> None:
    assert set(TABLE) <= set(RULES)


@over_all("rule", TABLE)
def test_a_rule_comes_to_what_is_stated(rule: str) -> None:
    answers = [Case(facts=case.facts, outcome=outcome_of(RULES[rule], case.facts)) for case in TABLE[rule]]

    assert answers == TABLE[rule]


@pytest.mark.long
def test_hardly_a_change_of_a_rule_goes_unnoticed() -> None:
    outcomes = judged(TABLE)
    unnoticed = [label for label, by in outcomes if not by]

    assert len(outcomes) > 1000
    assert len(unnoticed) <= MOST_SURVIVING * len(outcomes), "\n".join(
        [
            f"{RENEW} adds a case for each of these, where there is one:",
            *unnoticed,
        ]
    )


def test_each_number_is_moved_both_ways_and_each_comparison_negated(tmp_path: Path) -> None:
    conditions = CONDITIONS.replace('"wait_share > 0.1"', '"wait_share > 0.1 and has_workers and steps >= 3"')
    examples = EXAMPLES.replace("wait_share = 0.2", "wait_share = 0.2, has_workers = true, steps = 3")
    found = list(mutants(load_rule(written(tmp_path, HEAD + conditions + examples), SMALL)))

    assert [mutant.says.partition(" in ")[0] for mutant in found if mutant.place == "warning"][1:] == [
        "not (wait_share > 0.1)",
        "not (has_workers)",
        "not (steps >= 3)",
        "0.1 is 0.12",
        "0.1 is 0.08",
        "3 is 4",
        "3 is 2",
    ]
    assert {mutant.place for mutant in found} == {"critical", "warning"}
    assert {mutant.rule.judge(facts(wait_share=0.2, has_workers=True, steps=3)).answer for mutant in found} == {
        "warning", "quiet", "critical",
    }  # fmt: skip


FACTORS = whatifs.stated()


@over_all("rule", FACTORS)
def test_a_remedy_comes_to_the_factors_that_are_stated(rule: str) -> None:
    remedy = RULES[rule].remedy
    assert remedy is not None

    assert [whatifs.case_of(remedy, case.facts) for case in FACTORS[rule]] == FACTORS[rule]


def test_hardly_a_factor_that_is_moved_goes_unnoticed() -> None:
    outcomes = whatifs.judged(FACTORS)
    unnoticed = [label for label, by in outcomes if not by]

    assert len(outcomes) > 200
    assert len(unnoticed) <= MOST_SURVIVING * len(outcomes), "\n".join(
        [
            f"{RENEW} adds a case for each of these, where there is one:",
            *unnoticed,
        ]
    )
