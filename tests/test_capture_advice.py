"""Advice about the capture names what the reader can switch: options of diagnose run, or those of torch.profiler."""

import re

import pytest

from diagnose.cli.run import run
from diagnose.facts import Fact, Facts
from diagnose.metrics import units
from diagnose.metrics.communication.contention import SIX_STEPS
from diagnose.metrics.data.input_work import STACKS_BY_HAND
from diagnose.rule import Rule, load_rules

RULES = load_rules((), units())
OPTIONS = {option for parameter in run.params for option in parameter.opts}
OF_THE_PROFILER = re.compile(r"with_stack|profile_memory|record_shapes")
AFTER_RUN: Facts = {"captured_with": Fact("captured_with", "diagnose run", "text")}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_after_diagnose_run_no_rule_asks_for_options_that_it_has_not(rule: Rule) -> None:
    told = rule.advised(AFTER_RUN)

    assert set(re.findall(r"diagnose run (--[a-z-]+)", told)) <= OPTIONS
    assert not OF_THE_PROFILER.search(told) or "torch.profiler with" in told


@pytest.mark.parametrize("text", [STACKS_BY_HAND.sentence, SIX_STEPS.sentence])
def test_nor_does_what_could_not_be_measured(text: str) -> None:
    assert set(re.findall(r"diagnose run (--[a-z-]+)", text)) <= OPTIONS
    assert not OF_THE_PROFILER.search(text) or "torch.profiler" in text


def test_a_trace_of_another_profiler_is_told_that_profilers_options() -> None:
    lost = next(rule for rule in RULES if rule.id == "lost-gpu-events")

    assert "without with_stack and profile_memory" in lost.advised({})
    assert "diagnose run --steps 1" in lost.advised(AFTER_RUN)
