"""The shipped rules: they load, speak only of what they rest on, and stay quiet where nothing is wrong."""

import re
from collections.abc import Callable
from pathlib import Path

from over_all import Test, over_all
from small_rules import known

from diagnose.facts import Fact, Scalar, Unknown
from diagnose.metrics import REGISTRY
from diagnose.rule import SEVERITIES, Rule, builtin_rules, load_rule, load_rules, names_in
from diagnose.rule.needs import met


def of_each(test: Callable[[Rule], None]) -> Test:
    """One test over all rules that ship."""

    def of_file(path: Path) -> None:
        test(load_rule(path, known()))

    return over_all("path", sorted(builtin_rules().glob("*.toml")))(of_file)


@of_each
def test_shipped_rules_load_and_their_examples_hold(shipped: Rule) -> None:
    assert shipped.id


@of_each
def test_shipped_rules_say_why_their_fault_costs_time(shipped: Rule) -> None:
    assert shipped.mechanism is not None
    assert shipped.mechanism.source


@of_each
def test_shipped_rules_speak_only_of_facts_they_rest_on_or_that_an_example_gives(shipped: Rule) -> None:
    firing = [example for example in shipped.examples if example.expect in SEVERITIES]
    given = set().union(*(example.facts for example in firing))
    extra = names_in(shipped.says) - shipped.facts
    assert extra <= given | {"loader_workers", "steps_source", "memory_peak_bytes", "memory_total_bytes"}


@of_each
def test_shipped_rules_that_judge_the_run_predict_nothing_but_a_bound(shipped: Rule) -> None:
    if shipped.class_ == "validity":
        assert shipped.remedy is None or not shipped.remedy.assumes
        assert shipped.patch is None


@of_each
def test_shipped_rules_predict_no_gain_when_they_are_quiet_at_zero(shipped: Rule) -> None:
    zero: dict[str, Scalar] = {"share": 0.0, "flag": False, "text": "none seen"}
    nothing = {name: Fact(name, zero.get(unit, 0), unit) for name, unit in known().items()}
    nothing |= met(shipped.needs, known())
    if shipped.class_ not in ("validity", "capacity"):
        assert shipped.judge(nothing).answer == "quiet"
        assert shipped.judge(nothing).answer == "quiet"


@of_each
def test_shipped_rules_that_fire_without_a_gpu_name_none(shipped: Rule) -> None:
    """Facts of a GPU are unknown on a CPU; what is lost or recorded of a GPU is about one, whatever else is known."""
    of_a_gpu = {"gpu_vendor", "gpu_record", "gpu_events_lost_share", "graph_capture_share"}
    of_a_gpu |= {name for name, metric in REGISTRY.items() if metric.needs_gpu}
    for example in shipped.examples:
        given = {"has_gpu": False} | {name: value for name, value in example.facts.items() if value != "unknown"}
        if example.expect in SEVERITIES and not given["has_gpu"] and not of_a_gpu & {*example.facts}:
            world = {
                name: Fact(name, given.get(name, Unknown("not seen", None)), unit) for name, unit in known().items()
            }
            assert "GPU" not in shipped.title + shipped.sentence(shipped.says, world) + shipped.advised(world)


@of_each
def test_shipped_rules_say_in_at_most_eight_words_what_to_do(shipped: Rule) -> None:
    actions = [shipped.action, *(advice.what for advice in shipped.advice if advice.what)]

    assert shipped.action
    assert [action for action in actions if len(action.split()) > 8 or not action[0].islower()] == []


@of_each
def test_shipped_rules_know_nothing_without_facts(shipped: Rule) -> None:
    assert shipped.judge({}).answer == "unknown"


def test_a_gpu_that_is_never_idle_gets_no_advice_about_the_host() -> None:
    busy: dict[str, Scalar] = {"gemm_share": 0.9, "compute_share": 0.9, "has_gpu": True, "kernels_per_step": 9000}
    busy |= {"input_announcement_count": 0}
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


@of_each
def test_shipped_rules_send_nobody_back_to_diagnose_run(shipped: Rule) -> None:
    """What another capture by it would show has an option; a report of its own says what is not known, and why."""
    of_diagnose_run = 'captured_with == "diagnose run"'
    asks = re.compile(r"(?<!nothing to switch off: )diagnose run(?! --)")
    found, before = [], [""]
    for condition, text in [
        *((each.holds.text if each.holds else "", each.because) for each in shipped.advice),
        ("", shipped.do),
    ]:
        spoken_for = any(one and one.replace(of_diagnose_run, "").strip(" and") in (condition, "") for one in before)
        if asks.search(" ".join(text.split())) and "captured_with" not in condition and not spoken_for:
            found.append(text)
        before.append(condition if of_diagnose_run in condition else "")

    assert found == []
