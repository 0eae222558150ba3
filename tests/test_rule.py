"""Rules: what a judgement answers, every way a rule file can be wrong, and the shipped rules."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from diagnose.diagnosis import NotAdvised, Patch
from diagnose.facts import HOST_STEP, STEP, Fact, Facts, Scalar, Unknown, capture_setting
from diagnose.metrics import REGISTRY
from diagnose.rule import SEVERITIES, Judgement, Rule, builtin_rules, load_rule, load_rules, names_in
from diagnose.rule.condition import RuleError

SMALL = {
    "wait_share": "share",
    "idle_share": "share",
    "steps": "count",
    "peak_bytes": "bytes",
    "has_workers": "flag",
    "optimizer_kind": "text",
}
HEAD = """
title = "The GPU waits"
class = "data"
maturity = "stable"
says = "wait is {wait_share} of the step"
do = "Load sooner."
unless = "It is the first step."
see = ["https://docs.pytorch.org/docs/stable/data.html"]
"""
CONDITIONS = """
critical = "wait_share > 0.3"
warning = "wait_share > 0.1"
"""
EXAMPLES = """
[[example]]
name = "it waits"
facts = { wait_share = 0.2 }
expect = "warning"

[[example]]
name = "it does not"
facts = { wait_share = 0.0 }
expect = "quiet"
"""
GOOD = HEAD + CONDITIONS + EXAMPLES


def known() -> Mapping[str, str]:
    return {name: metric.unit for name, metric in REGISTRY.items()}


def facts(**values: Scalar) -> Facts:
    return {
        name: Fact(name, values.get(name, Unknown(f"no {name}", capture_setting(name))), unit)
        for name, unit in SMALL.items()
    }


def written(folder: Path, text: str, name: str = "data-wait") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


@pytest.fixture
def rule(tmp_path: Path) -> Any:
    return lambda extra="", conditions=CONDITIONS: load_rule(written(tmp_path, HEAD + conditions + extra), SMALL)


TWO_FACTS = """
critical = "idle_share > 0.5"
warning = "wait_share > 0.1"
"""


# What a rule answers.


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


@pytest.mark.parametrize(("share", "removed"), [(0.0, 0.0), (0.2, 0.2), (0.99, 0.95), (1.7, 0.95), (-0.3, 0.0)])
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


# Folders.


def test_a_users_rule_is_added_and_replaces_the_builtin_of_its_name(tmp_path: Path) -> None:
    text = GOOD.replace("wait_share", "data_wait_share").replace("The GPU waits", "Mine")
    written(tmp_path, text)
    written(tmp_path, text, "brand-new")
    rules = {rule.id: rule for rule in load_rules([tmp_path], known())}
    assert rules["data-wait"].title == rules["brand-new"].title == "Mine"
    assert len(rules) == len(load_rules([], known())) + 1


@pytest.mark.parametrize("name", ["missing", "."])
def test_a_folder_without_rules_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuleError, match="no rule files"):
        load_rules([tmp_path / name], known())


# Every way a rule file can be wrong: the file with `old` replaced by `new`; the message names key and hint.


@pytest.mark.parametrize(
    ("old", "new", "key", "hint"),
    [
        ('title = "The', 'title = The', ", line 2", "not valid TOML"),
        ('name = "it waits"', 'name = "it waits', ", line 14", "not valid TOML"),
        ("[[example]]", "[[example", ", line 13", "not valid TOML"),
        ('title = "The', 'titel = "The', ": titel", "did you mean 'title'?"),
        ('title = "The GPU waits"', "", ": title", "missing key"),
        ('says = "wait is {wait_share} of the step"', "", ": says", "missing key"),
        ('unless = "It is the first step."', "", ": unless", "missing key"),
        ('title = "The GPU waits"', "title = 3", ": title", "expected text, got a number"),
        ('title = "The GPU waits"', 'title = ""', ": title", "empty"),
        ('class = "data"', 'class = "dada"', ": class", "did you mean 'data'?"),
        ('class = "data"', 'class = "?"', ": class", "one of data, host"),
        ('maturity = "stable"', 'maturity = "stabel"', ": maturity", "did you mean 'stable'?"),
        ('see = ["https', 'see = ["http', ": see[0]", "https://"),
        ("see = [", "numerics = 1\nsee = [", ": numerics", "expected true or false, got a number"),
        ('critical = "wait_share > 0.3"', "critical = 0.3", ": critical", "expected text, got"),
        ('critical = "wait_share >', 'critical = "wait_shar >', ": critical, column 1", "did you mean 'wait_share'?"),
        ('critical = "wait_share >', 'critical = "wait_share =', ": critical, column 12", "write == to compare"),
        ('warning = "wait_share > 0.1"', 'warning = "wait_share"', ": warning", "expected a condition, got share"),
        ('warning = "wait_share > 0.1"', 'warning = "1 < 2"', ": warning", "reads no fact"),
        (CONDITIONS, "", ": critical", "add critical, warning or info"),
        ("{wait_share} of", "{wait_shar} of", ": says", "did you mean 'wait_share'?"),
        ("{wait_share} of", "{wait_share:.0%} of", ": says", "did you mean 'wait_share'?"),
        ("{wait_share} of the step", "{steps:of}", ": says", "steps is no share"),
        ("Load sooner.", "Load {idle_shares}.", ": do", "did you mean 'idle_share'?"),
        ("Load sooner.", "Load {sooner", ": do", "lone brace"),
        ("It is the", "{x} is the", ": unless", "no fact is named 'x'"),
        ("\n[[example]]", "\n[whatif]\n[[example]]", ": whatif", "nothing changes"),
        ("\n[[example]]", '\n[whatif]\nremove = "1"\n[[example]]', ": whatif.remove", "did you mean 'removes'?"),
        ("\n[[example]]", '\n[whatif]\nremoves = "x"\n[[example]]', ": whatif.removes", "no fact is named 'x'"),
        ("\n[[example]]", '\n[whatif]\nremoves = "steps"\n[[example]]', ": whatif.removes", "a share of the step"),
        ("\n[[example]]", "\n[whatif]\nhost = { sync = [0, 0.5] }\n[[example]]", ": whatif.assumes", "its assumes"),
        ("\n[[example]]", "\n[whatif]\nhost = { synk = [0, 1] }\n[[example]]", ": whatif.host", "named 'synk'"),
        ("\n[[example]]", "\n[whatif]\nkernels = { gems = [0, 1] }\n[[example]]", ": whatif.kernels", "named 'gems'"),
        ("\n[[example]]", '\n[whatif]\nfuses = ["all"]\n[[example]]', ": whatif.fuses", "named 'all'"),
        ("\n[[example]]", "\n[whatif]\nlaunches = [0.5, -1]\n[[example]]", ": whatif.launches", "zero or more"),
        ("\n[[example]]", '\n[whatif]\nlaunches = [0.5, "=x"]\n[[example]]', ": whatif.launches", "no fact is named"),
        ("\n[[example]]", '\n[whatif]\nlaunches = [0.5, "x"]\n[[example]]', ": whatif.launches", "starts with ="),
        ("\n[[example]]", "\n[patch]\nset = {a = 1}\n[[example]]", ": patch.target", "missing key"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddq"\nset = {a = 1}\n[[example]]', ": patch.target", "'ddp'?"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nset = {}\n[[example]]', ": patch.set", "sets nothing"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nset = {a = [1]}\n[[example]]', ": patch.set.a", "expected text"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nset = {a = "=x"}\n[[example]]', ": patch.set.a", "named 'x'"),
        ("\n[[example]]", '\n[patch]\ntarget = "ddp"\nif = "steps"\nset = {a = 1}\n[[example]]', ": patch.if",
         "expected a condition"),
        ("\n[[example]]", '\n[[not_when]]\nif = "steps > 1"\n[[example]]', ": not_when[0].because", "missing key"),
        ("\n[[example]]", '\n[[not_when]]\nif = "step > 1"\nbecause = "b"\n[[example]]', ": not_when[0].if",
         "did you mean 'steps'?"),
        ("\n[[example]]", '\n[[not_when]]\nif = "steps > 1"\nbecause = "{b}"\n[[example]]', ": not_when[0].because",
         "no fact is named 'b'"),
        ("\n[[example]]", '\n[not_when]\nif = "steps > 1"\nbecause = "b"\n[[example]]', ": not_when", "a list, got a"),
        ("\n[[example]]", '\n[negative]\nwhat = "optim"\n[[example]]', ": negative.because", "missing key"),
        ("\n[[example]]", '\n[negative]\nwhat = "optim"\nbecause = "{z}"\n[[example]]', ": negative.because", "'z'"),
        ("\n[[example]]", '\n[negative]\nwhat = "a"\nbecause = "b"\nif = "steps"\n[[example]]', ": negative.if",
         "expected a condition"),
        (EXAMPLES, "", ": example", "missing key"),
        (EXAMPLES, "example = []", ": example", "no example in which the rule fires"),
        ('expect = "quiet"', 'expect = "quite"', ": example[1].expect", "did you mean 'quiet'?"),
        ('expect = "quiet"', 'expect = "warning"', ": example[1].expect", "expects warning and gets quiet"),
        ('expect = "warning"', 'expect = "critical"', ": example[0].expect", "wait_share = 0.2"),
        ("wait_share = 0.0", "wait_share = 0.2", ": example[1].expect", "expects quiet and gets warning"),
        ("wait_share = 0.0", "", ": example[1].expect", "expects quiet and gets unknown"),
        ("wait_share = 0.0", "wait_shar = 0.0", ": example[1].facts.wait_shar", "did you mean 'wait_share'?"),
        ("wait_share = 0.0", 'wait_share = "none"', ": example[1].facts.wait_share", "is a number, not 'none'"),
        ("wait_share = 0.0", "wait_share = true", ": example[1].facts.wait_share", "is a number, not True"),
        ("wait_share = 0.0", "wait_share = [1]", ": example[1].facts.wait_share", "is a number, not [1]"),
        ("wait_share = 0.0", "has_workers = 1", ": example[1].facts.has_workers", "is a flag, not 1"),
        ("wait_share = 0.0", "optimizer_kind = 1", ": example[1].facts.optimizer_kind", "is a text, not 1"),
        ('name = "it does not"', "", ": example[1].name", "missing key"),
        ("facts = { wait_share = 0.0 }", "facts = 3", ": example[1].facts", "expected a table"),
    ],
)  # fmt: skip
def test_a_wrong_rule_file_is_refused(tmp_path: Path, old: str, new: str, key: str, hint: str) -> None:
    assert old in GOOD
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(RuleError) as caught:
        load_rule(path, SMALL)
    assert f"{path}{key}" in str(caught.value)
    assert hint in str(caught.value)


@pytest.mark.parametrize(("dropped", "hint"), [("it waits", "fires"), ("it does not", "stays quiet")])
def test_both_kinds_of_example_are_needed(tmp_path: Path, dropped: str, hint: str) -> None:
    kept = [part for part in EXAMPLES.split("\n\n") if dropped not in part]
    with pytest.raises(RuleError, match=f"no example in which the rule {hint}"):
        load_rule(written(tmp_path, HEAD + CONDITIONS + kept[0]), SMALL)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RuleError, match="cannot be read"):
        load_rule(path, SMALL)


@pytest.mark.parametrize("name", ["Data_Wait", "data wait", "-data"])
def test_a_file_is_named_after_its_fault(tmp_path: Path, name: str) -> None:
    with pytest.raises(RuleError, match="named after its fault"):
        load_rule(written(tmp_path, GOOD, name), SMALL)


# The shipped rules.


@pytest.fixture(params=sorted(builtin_rules().glob("*.toml")), ids=lambda path: path.stem)
def shipped(request: pytest.FixtureRequest) -> Rule:
    return load_rule(request.param, known())


def test_shipped_rules_load_and_their_examples_hold(shipped: Rule) -> None:
    assert shipped.id


def test_shipped_rules_speak_only_of_facts_they_rest_on_or_that_an_example_gives(shipped: Rule) -> None:
    firing = [example for example in shipped.examples if example.expect in SEVERITIES]
    given = set().union(*(example.facts for example in firing))
    extra = names_in(shipped.says) - shipped.facts
    assert extra <= given | {"loader_workers", "steps_source", "memory_peak_bytes", "memory_total_bytes"}


def test_shipped_rules_that_judge_the_run_predict_nothing(shipped: Rule) -> None:
    if shipped.class_ == "validity":
        assert shipped.remedy is None
        assert shipped.patch is None


def test_shipped_rules_predict_no_gain_when_they_are_quiet_at_zero(shipped: Rule) -> None:
    zero: dict[str, Scalar] = {"share": 0.0, "flag": False, "text": "none seen"}
    nothing = {name: Fact(name, zero.get(unit, 0), unit) for name, unit in known().items()}
    if shipped.class_ not in ("validity", "capacity"):
        assert shipped.judge(nothing).answer == "quiet"
        assert shipped.judge(nothing).answer == "quiet"


def test_shipped_rules_know_nothing_without_facts(shipped: Rule) -> None:
    assert shipped.judge({}).answer == "unknown"


def test_a_gpu_that_is_never_idle_gets_no_advice_about_the_host() -> None:
    busy: dict[str, Scalar] = {"gemm_share": 0.9, "compute_share": 0.9, "has_gpu": True, "kernels_per_step": 9000}
    zero: dict[str, Scalar] = {"share": 0.0, "flag": False, "text": "fused"}
    world = {name: Fact(name, busy.get(name, zero.get(unit, 1)), unit) for name, unit in known().items()}
    fired = [rule.id for rule in load_rules([], known()) if rule.class_ in ("host", "data")
             and rule.judge(world).answer in SEVERITIES]  # fmt: skip
    assert fired == []


def test_the_popular_remedies_can_be_advised_against() -> None:
    remedies = {rule.negative.what for rule in load_rules([], known()) if rule.negative}
    assert remedies >= {
        "dataloader_num_workers", "torch_compile", "attn_implementation", "use_liger_kernel",
        "tf32", "optim", "ddp_bucket_cap_mb", "ddp_find_unused_parameters",
    }  # fmt: skip


def test_the_page_about_rules_shows_a_rule_that_loads(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent / "docs" / "writing-a-rule.md").read_text()
    text = page.split("```toml\n")[1].split("```")[0]
    assert tomllib.loads(text)
    assert load_rule(written(tmp_path, text), known()).judge({}).answer == "unknown"
