"""The plan: what comes first, what is left out beside it, and when it ends."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from whatif.predicted import device_bound, loading, predictor, rule

from diagnose.diagnosis import Speedup
from diagnose.predict.plan import PlannedRemedy, Weight, hiding, plan_of
from diagnose.predict.whatif import Predictor
from diagnose.rule import Rule

NOTHING = 'removes = "0"'


def named(name: str, keys: str = "", sets: str = "", whatif: str = NOTHING) -> Rule:
    return rule(whatif, name, keys, sets)


def planned(
    alone: Mapping[str, Speedup], *rules: Rule, noise_share: float = 0.0, weights: Mapping[str, Weight] | None = None
) -> tuple[PlannedRemedy, ...]:
    """The plan when each rule buys the same whatever came before it."""
    stated: Any = SimpleNamespace(
        predict=lambda rule, after: alone[rule.id], together=lambda rules: together(rules, alone)
    )
    hidden = {each.id: Weight(noise_share=hiding(each, noise_share)) for each in rules}
    return plan_of(cast(Predictor, stated), rules, hidden | dict(weights or {}))


def together(rules: Sequence[Rule], alone: Mapping[str, Speedup]) -> Speedup:
    """The gains multiplied, as those of changes to work that follows each other in no common time."""
    lows, highs = zip(*(alone[each.id] for each in rules), strict=True)
    return math.prod(lows), None if None in highs else math.prod(highs)


def ids(plan: Sequence[PlannedRemedy]) -> list[str]:
    return [step.rule.id for step in plan]


def test_the_worst_case_decides_what_comes_first() -> None:
    alone = {"sure": (1.2, 1.25), "hopeful": (1.1, 1.48)}

    assert ids(planned(alone, named("hopeful"), named("sure"))) == ["sure", "hopeful"]


@pytest.mark.parametrize(
    ("severity", "bounds_step", "of_small", "order"),
    [
        ("critical", True, "warning", ["unsure", "small"]),
        ("critical", False, "info", ["unsure", "small"]),
        ("critical", False, "warning", ["small", "unsure"]),
        ("warning", True, "info", ["small", "unsure"]),
    ],
)
def test_what_is_critical_precedes_what_is_surer_where_it_bounds_the_step_or_the_other_informs(
    severity: str, bounds_step: bool, of_small: str, order: list[str]
) -> None:
    alone = {"small": (1.02, 1.04), "unsure": (1.0, 1.5)}
    weights = {"small": Weight(of_small), "unsure": Weight(severity, bounds_step)}

    assert ids(planned(alone, named("small"), named("unsure"), weights=weights)) == order


@pytest.mark.parametrize(
    ("gain", "severity", "order"),
    [
        ((1.02, 1.05), "info", ["gentle", "option"]),
        ((1.01, 1.3), "info", ["option", "gentle"]),
        ((1.01, 1.3), "warning", ["gentle", "option"]),
    ],
)
def test_a_change_of_numerics_for_information_comes_after_gentler_ones_that_pay(
    gain: Speedup, severity: str, order: list[str]
) -> None:
    alone = {"option": (1.2, 1.4), "gentle": gain}
    weights = {"option": Weight("info", gentler=frozenset({"gentle"})), "gentle": Weight(severity)}

    assert ids(planned(alone, named("option"), named("gentle"), weights=weights)) == order


def test_what_is_critical_and_cannot_pay_precedes_nothing() -> None:
    alone = {"small": (1.02, 1.04), "spent": (1.0, 1.0)}
    weights = {"small": Weight("info"), "spent": Weight("critical", bounds_step=True)}

    assert ids(planned(alone, named("small"), named("spent"), weights=weights)) == ["small"]


@pytest.mark.parametrize(("best", "order"), [(1.5, ["sure", "critical"]), (2.5, ["critical", "sure"])])
def test_what_is_critical_does_not_precede_what_is_sure_to_buy_more_than_it_can(best: float, order: list[str]) -> None:
    alone = {"sure": (1.8, 2.4), "critical": (1.1, best)}
    weights = {"sure": Weight("warning"), "critical": Weight("critical", bounds_step=True)}

    assert ids(planned(alone, named("critical"), named("sure"), weights=weights)) == order


@pytest.mark.parametrize(
    ("promised", "order"),
    [
        ((1.14, 1.5), ["cause", "symptom"]),
        ((1.05, 1.5), ["symptom", "cause"]),
        ((1.07, 1.5), ["cause", "symptom"]),
        ((1.07, 1.3), ["symptom", "cause"]),
    ],
)
def test_a_symptom_does_not_lead_the_cause_that_excludes_it_and_promises_more(
    promised: tuple[float, float], order: list[str]
) -> None:
    alone = {"symptom": (1.07, 1.41), "cause": promised}
    weights = {"symptom": Weight("critical", bounds_step=True, yields_to=frozenset({"cause"})), "cause": Weight("info")}

    assert ids(planned(alone, named("symptom"), named("cause"), weights=weights)) == order


def test_of_two_equal_worst_cases_the_better_best_case_comes_first() -> None:
    alone = {"a": (1.2, 1.25), "b": (1.2, 1.4)}

    assert ids(planned(alone, named("a"), named("b"))) == ["b", "a"]


def test_of_equal_gains_the_smaller_effort_comes_first_then_unchanged_numerics() -> None:
    alone = dict.fromkeys(["z-code", "y-numerics", "x-setting", "w-cluster"], (1.201, 1.302))
    rules = [named("w-cluster", 'effort = "cluster"'), named("z-code", 'effort = "code"'),
             named("y-numerics", "numerics = true"), named("x-setting")]  # fmt: skip

    assert ids(planned(alone, *rules)) == ["x-setting", "y-numerics", "z-code", "w-cluster"]


@pytest.mark.parametrize(
    ("gain", "keys", "order"),
    [
        ((1.04, 1.08), "", ["plain", "numerics"]),
        ((1.04, 1.08), 'effort = "code"', ["numerics", "plain"]),
        ((1.02, 1.08), "", ["numerics", "plain"]),
        ((1.04, 1.05), "", ["numerics", "plain"]),
    ],
)
def test_of_like_gains_the_one_that_alters_no_numerics_comes_first(gain: Speedup, keys: str, order: list[str]) -> None:
    alone = {"numerics": (1.05, 1.075), "plain": gain}

    assert ids(planned(alone, named("numerics", "numerics = true"), named("plain", keys))) == order


def test_what_buys_less_than_steps_lie_apart_comes_last_and_is_marked() -> None:
    alone = {"sure": (1.04, 1.05), "hopeful": (1.0, 1.3), "small": (1.03, 1.04)}
    rules = named("sure"), named("hopeful"), named("small")

    noisy, steady = planned(alone, *rules, noise_share=0.06), planned(alone, *rules, noise_share=0.01)

    assert [(step.rule.id, step.below_noise) for step in noisy] == [
        ("hopeful", False), ("sure", True), ("small", True),
    ]  # fmt: skip
    assert [(step.rule.id, step.below_noise) for step in steady] == [
        ("sure", False), ("small", False), ("hopeful", False),
    ]  # fmt: skip


def test_steps_that_lie_apart_are_no_doubt_about_what_is_saved_over_the_run() -> None:
    alone = {"each-step": (1.04, 1.05), "checkpoints": (1.03, 1.04)}
    rules = named("each-step"), named("checkpoints", whatif=NOTHING + '\nover = "run"')

    found = planned(alone, *rules, noise_share=0.2)

    assert [(step.rule.id, step.below_noise) for step in found] == [("checkpoints", False), ("each-step", True)]


def test_what_surely_buys_less_than_2_percent_and_at_best_less_than_5_is_not_planned() -> None:
    gains = {"a": (1.019, 1.049), "b": (1.0, 1.051), "c": (1.021, 1.021)}
    assert ids(planned(gains, *map(named, gains))) == ["c", "b"]


def test_at_most_five_are_planned() -> None:
    names = ["a", "b", "c", "d", "e", "f", "g"]

    assert len(planned(dict.fromkeys(names, (1.1, 1.2)), *map(named, names))) == 5


def test_each_step_of_the_plan_tells_the_gain_of_all_so_far() -> None:
    found = planned({"a": (1.5, 1.6), "b": (1.1, 1.2), "c": (1.05, 1.3)}, named("a"), named("b"), named("c"))

    assert [step.speedup for step in found] == [(1.5, 1.6), (1.1, 1.2), (1.05, 1.3)]
    assert [step.cumulative for step in found] == [
        (1.5, 1.6),
        pytest.approx((1.65, 1.92)),
        pytest.approx((1.65 * 1.05, 1.92 * 1.3)),
    ]


def test_after_a_gain_without_a_known_best_case_the_plan_promises_at_least() -> None:
    found = planned({"a": (1.5, 1.6), "b": (1.1, None), "c": (1.05, 1.3)}, named("a"), named("b"), named("c"))

    assert [step.rule.id for step in found] == ["a", "b", "c"]
    assert [step.cumulative[1] for step in found] == [1.6, None, None]
    assert found[-1].cumulative[0] == pytest.approx(1.5 * 1.1 * 1.05)


@pytest.mark.parametrize(("keys", "other"), [('excludes = ["b"]', ""), ("", 'excludes = ["a"]')])
def test_a_rule_that_excludes_another_is_planned_without_it(keys: str, other: str) -> None:
    alone = {"a": (1.5, 1.6), "b": (1.4, 1.5)}

    assert ids(planned(alone, named("a", keys), named("b", other))) == ["a"]


def test_two_values_of_one_setting_are_not_planned_together() -> None:
    alone = {"a": (1.5, 1.6), "b": (1.4, 1.5), "c": (1.1, 1.2)}
    rules = named("a", sets='optim = "x"'), named("b", sets='optim = "y"\ntf32 = true'), named("c", sets="tf32 = true")

    assert ids(planned(alone, *rules)) == ["a", "c"]


def test_what_is_unknown_or_has_no_remedy_is_not_planned() -> None:
    unknown = named("unknown", whatif='removes = "padding_share"')

    assert plan_of(predictor(device_bound()), [unknown]) == ()


def test_each_is_chosen_with_those_before_it_in_place() -> None:
    faster = named("faster", whatif="kernels = { matrix = [0.5, 0.5] }")
    waiting = named("waiting", whatif="host = { data-wait = [0, 0] }")

    found = plan_of(predictor(loading(4, 10)), [faster, waiting])

    assert ids(found) == ["faster", "waiting"]
    assert found[0].speedup == pytest.approx((14 / 9, 14 / 9), rel=0.02)
    assert found[1].speedup == pytest.approx((9 / 5, 9 / 5), rel=0.02)
    assert found[1].cumulative == pytest.approx((14 / 5, 14 / 5), rel=0.02)


FUSED = "use_liger_kernel = true"


def test_faults_that_one_change_cures_are_planned_as_one() -> None:
    attention = named("attention", sets=FUSED, whatif="kernels = { eager-attention = [0.5, 0.5] }")
    products = named("products", sets=FUSED, whatif="kernels = { matrix = [0.8, 0.8] }")
    rules = [attention, products]

    alone = plan_of(predictor(device_bound()), rules)
    cured = plan_of(predictor(device_bound(), rules), rules)

    assert [step.speedup for step in alone] == [pytest.approx((10 / 8, 10 / 8), rel=0.01)]
    assert [step.speedup for step in cured] == [pytest.approx((10 / 7, 10 / 7), rel=0.01)], "2 ms and 1 ms of 10"


def test_what_two_rules_say_of_one_change_is_not_counted_twice() -> None:
    """Matrix products are all that either speaks of: the change halves them once."""
    one = named("one", sets=FUSED, whatif="kernels = { matrix = [0.5, 0.5] }\nlaunches = [0.5, 0.5]")
    two = named("two", sets=FUSED, whatif="kernels = { matrix = [0.5, 0.6] }\nlaunches = [0.5, 0.5]")

    found = predictor(device_bound(), [one, two])

    assert found.predict(one) == pytest.approx((10 / 7.5, 10 / 7.5), rel=0.02)
    assert found.predict(two) == predictor(device_bound()).predict(two), "its own part alone"
    assert found.assumes(one).startswith("the factors of the test; the host's time is as profiled")


def test_another_value_of_the_setting_is_another_change() -> None:
    one = named("one", sets='optim = "x"', whatif="kernels = { matrix = [0.5, 0.5] }")
    two = named("two", sets='optim = "y"', whatif="kernels = { optimizer = [0.5, 0.5] }")

    assert predictor(device_bound(), [one, two]).predict(one) == predictor(device_bound()).predict(one)


def test_a_change_that_may_cost_time_stands_behind_one_that_may_buy_nothing() -> None:
    alone: Mapping[str, Speedup] = {"loses": (0.8, 1.5), "nothing": (1.0, 1.2)}

    assert ids(planned(alone, named("nothing"), named("loses"))) == ["nothing", "loses"]


def test_a_change_that_slows_the_step_is_taken_back_and_costs_the_plan_nothing() -> None:
    alone: Mapping[str, Speedup] = {"sure": (1.3, 1.4), "loses": (0.8, 1.5)}

    assert planned(alone, named("sure"), named("loses"))[-1].cumulative == pytest.approx((1.3, 1.4 * 1.5))
