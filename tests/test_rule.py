"""Rules: what a judgement answers, and what is said and done about it."""

from pathlib import Path
from typing import Any

import pytest
from small_rules import CONDITIONS, EXAMPLES, HEAD, SMALL, facts, written

from diagnose.attribution.causes import WAITING
from diagnose.diagnosis import NotAdvised, Patch
from diagnose.facts import HOST_STEP, STEP, Fact, capture_setting
from diagnose.rule import Judgement, load_rule


@pytest.fixture
def rule(tmp_path: Path) -> Any:
    return lambda extra="", conditions=CONDITIONS: load_rule(written(tmp_path, HEAD + conditions + extra), SMALL)


TWO_FACTS = """
critical = "idle_share > 0.5"
warning = "wait_share > 0.1"
"""


def test_the_highest_severity_that_holds_is_the_answer(rule: Any) -> None:
    assert rule(EXAMPLES).judge(facts(wait_share=0.4)) == Judgement("critical", evidence=("wait_share",))
    assert rule(EXAMPLES).judge(facts(wait_share=0.2)).answer == "warning"
    assert rule(EXAMPLES).judge(facts(wait_share=0.0)) == Judgement("quiet")


def test_unknown_says_why_and_what_to_capture(rule: Any) -> None:
    assert rule(EXAMPLES).judge(facts()) == Judgement("unknown", "no wait_share", (capture_setting("wait_share"),))
    assert rule(EXAMPLES).judge({}).because == "wait_share was not measured"


def test_a_known_lower_severity_stands_where_a_higher_one_is_unknown(rule: Any) -> None:
    mixed = rule(EXAMPLES.replace("wait_share =", "idle_share = 0.0, wait_share ="), TWO_FACTS)
    assert mixed.judge(facts(wait_share=0.2)).answer == "warning"
    assert mixed.judge(facts(wait_share=0.0)) == Judgement("unknown", "no idle_share", (capture_setting("idle_share"),))


def test_a_quotient_without_a_value_is_unknown(rule: Any) -> None:
    examples = EXAMPLES.replace("wait_share =", "steps = 1, wait_share =")
    divided = rule(examples, 'warning = "wait_share / steps > 0.1"')
    assert divided.judge(facts(wait_share=0.2, steps=0)).because == "a quotient in its condition has no value"


NOT_WHEN = """
[[not_when]]
if = "has_workers and wait_share < 0.25"
because = "workers exist and wait is {wait_share}"
"""


def test_a_precondition_turns_a_rule_that_fires_into_negative_advice(rule: Any) -> None:
    blocked = rule(NOT_WHEN + EXAMPLES)
    judgement = blocked.judge(facts(wait_share=0.2, has_workers=True))
    assert judgement == Judgement(
        "not_advised", "workers exist and wait is 20.0 %", evidence=("wait_share", "has_workers")
    )
    assert blocked.not_advised(facts(), judgement) == NotAdvised(what="data-wait", because=judgement.because)
    assert blocked.judge(facts(wait_share=0.3, has_workers=True)).answer == "warning"


def test_an_unknown_precondition_does_not_block(rule: Any) -> None:
    assert rule(NOT_WHEN + EXAMPLES).judge(facts(wait_share=0.2)).answer == "warning"


NEGATIVE = """
[negative]
what = "dataloader_num_workers"
because = "data wait is {wait_share} of the step"
"""


def test_negative_advice_needs_a_quiet_rule_and_known_facts(rule: Any) -> None:
    judged = rule(NEGATIVE + EXAMPLES)
    quiet = facts(wait_share=0.01)
    expected = NotAdvised(what="dataloader_num_workers", because="data wait is 1.0 % of the step")
    assert judged.not_advised(quiet, judged.judge(quiet)) == expected
    assert judged.not_advised(facts(), judged.judge(facts())) is None
    loud = facts(wait_share=0.5)
    assert judged.not_advised(loud, judged.judge(loud)) is None


def test_negative_advice_may_have_a_condition_of_its_own(rule: Any) -> None:
    judged = rule(NEGATIVE + 'if = "idle_share < 0.1"\n' + EXAMPLES)
    assert judged.not_advised(facts(wait_share=0.01, idle_share=0.05), Judgement("quiet"))
    assert judged.not_advised(facts(wait_share=0.01, idle_share=0.5), Judgement("quiet")) is None
    assert judged.not_advised(facts(wait_share=0.01), Judgement("quiet")) is None


WITHHELD = """
[patch]
target = "training_arguments"
set = { dataloader_num_workers = 4 }
[[patch.not_when]]
if = "has_workers"
because = "workers exist and wait is {wait_share}"
"""


def test_a_withheld_patch_is_negative_advice_and_the_finding_stays(rule: Any) -> None:
    judged = rule(WITHHELD + EXAMPLES)
    with_workers, without = facts(wait_share=0.3, has_workers=True), facts(wait_share=0.3, has_workers=False)

    assert judged.judge(with_workers).answer == "warning"
    assert judged.patch_for(with_workers) is None
    expected = NotAdvised(what="dataloader_num_workers", because="workers exist and wait is 30.0 %")
    assert judged.not_advised(with_workers, judged.judge(with_workers)) == expected
    assert judged.patch_for(without) is not None
    assert judged.patch_for(facts(wait_share=0.3)) is not None, "an unknown condition withholds nothing"
    assert judged.not_advised(without, judged.judge(without)) is None


def test_a_name_for_several_host_causes_sets_the_factor_of_each(rule: Any) -> None:
    text = '[whatif]\nassumes = "so"\nsource = "so"\nhost = { late-rank = [0.5, 1.0], data-wait = [0.0, 0.1] }\n'
    remedy = rule(text + EXAMPLES).remedy
    assert remedy is not None

    assert dict(remedy.host) == {**dict.fromkeys(WAITING, (0.5, 1.0)), "data-wait": (0.0, 0.1)}


@pytest.mark.parametrize(("share", "removed"), [(0.0, 0.0), (0.2, 0.2), (0.99, 0.99), (1.7, 1.0), (-0.3, 0.0)])
def test_a_bound_removes_the_share_at_best_and_nothing_at_worst(rule: Any, share: float, removed: float) -> None:
    remedy = rule('[whatif]\nremoves = "wait_share"\n' + EXAMPLES).remedy

    assert remedy.factors(facts(wait_share=share), "best").removed == pytest.approx(removed)
    assert remedy.factors(facts(wait_share=share), "worst").removed == 0


def test_no_factors_without_the_fact(rule: Any) -> None:
    assert rule(EXAMPLES).remedy is None
    assert rule('[whatif]\nremoves = "wait_share"\n' + EXAMPLES).remedy.factors(facts(), "best") is None


PATCH = """
[patch]
target = "training_arguments"
[patch.set]
workers = "=max(2, ceil(wait_share * 10))"
half = "=idle_share / 2"
pin = true
mode = "spawn"
"""


def test_patch_values_are_computed_and_unknown_ones_left_out(rule: Any) -> None:
    patched = rule(PATCH + EXAMPLES)
    assert patched.patch_for(facts(wait_share=0.45)) == Patch(
        target="training_arguments", set={"workers": 5, "pin": True, "mode": "spawn"}
    )
    assert patched.patch_for(facts(wait_share=0.1, idle_share=0.5)).set["half"] == 0.25


def test_a_patch_with_nothing_known_is_no_patch(rule: Any) -> None:
    only = '[patch]\ntarget = "ddp"\nset = { cap = "=wait_share * 100" }\n'
    assert rule(only + EXAMPLES).patch_for(facts()) is None
    assert rule(only + EXAMPLES).patch_for(facts(wait_share=0.25)) == Patch(target="ddp", set={"cap": 25})
    assert rule(EXAMPLES).patch_for(facts(wait_share=0.25)) is None


def test_a_patch_may_have_a_condition(rule: Any) -> None:
    patched = rule('[patch]\ntarget = "ddp"\nif = "has_workers"\nset = { cap = 25 }\n' + EXAMPLES)
    assert patched.patch_for(facts(has_workers=True)) == Patch(target="ddp", set={"cap": 25})
    assert patched.patch_for(facts(has_workers=False)) is None
    assert patched.patch_for(facts()) is None


def test_a_share_says_of_which_step_it_is(rule: Any) -> None:
    on_device = {"wait_share": Fact("wait_share", 0.396, "share", STEP)}
    on_host = {"wait_share": Fact("wait_share", 0.396, "share", HOST_STEP)}

    assert rule(EXAMPLES).sentence("{wait_share:of} waits", on_device) == "39.6 % of the step waits"
    assert rule(EXAMPLES).sentence("{wait_share:of} waits", on_host) == "39.6 % of the host step waits"


def test_sentences_speak_facts(rule: Any) -> None:
    text = "wait {wait_share}, peak {peak_bytes}, kind {optimizer_kind}, idle {idle_share}"
    spoken = rule(EXAMPLES).sentence(text, facts(wait_share=0.396, peak_bytes=2**31, optimizer_kind="fused"))
    assert spoken == "wait 39.6 %, peak 2.0 GiB, kind fused, idle unknown"
