"""Advice about the capture names what the reader can switch: options of diagnose run, or those of torch.profiler."""

import re

import pytest
from over_all import over_all

from diagnose.commands.run.command import run
from diagnose.diagnosis import NotJudged
from diagnose.facts import (
    DIAGNOSE_RUN,
    Capture,
    Fact,
    Facts,
    analysis_option,
    another_run,
    capture_setting,
    nothing_helps,
)
from diagnose.metrics import units
from diagnose.metrics.communication.contention import SIX_STEPS
from diagnose.metrics.data.input_work import STACKS_BY_HAND
from diagnose.report.views.words import to_capture
from diagnose.rule import Rule, load_rules

RULES = load_rules((), units())
OPTIONS = {option for parameter in run.params for option in parameter.opts}
OF_THE_PROFILER = re.compile(r"with_stack|profile_memory|record_shapes")
AFTER_RUN: Facts = {"captured_with": Fact("captured_with", "diagnose run", "text")}


@over_all("rule", RULES)
def test_after_diagnose_run_no_rule_asks_for_options_that_it_has_not(rule: Rule) -> None:
    told = rule.advised(AFTER_RUN)

    assert set(re.findall(r"diagnose run (--[a-z-]+)", told)) <= OPTIONS
    assert not OF_THE_PROFILER.search(told) or "torch.profiler with" in told


@pytest.mark.parametrize("text", [STACKS_BY_HAND.sentence, SIX_STEPS.sentence])
def test_nor_does_what_could_not_be_measured(text: str) -> None:
    assert set(re.findall(r"diagnose run (--[a-z-]+)", text)) <= OPTIONS
    assert not OF_THE_PROFILER.search(text) or "torch.profiler" in text


@pytest.mark.parametrize(
    ("capture", "sentence", "under_a_heading"),
    [
        (DIAGNOSE_RUN, "capture with diagnose run", "diagnose run"),
        (capture_setting("a", analysis_option("--x")), "capture with a, or pass --x", "a, or pass --x"),
        (analysis_option("--x", capture_setting("a")), "pass --x, or capture with a", "pass --x, or capture with a"),
        (another_run("capture three steps"), "capture three steps", "capture three steps"),
        (nothing_helps("it has none"), "nothing: it has none", "nothing: it has none"),
        (nothing_helps("one process", DIAGNOSE_RUN), "nothing for one process; else capture with diagnose run",
         "nothing for one process; else capture with diagnose run"),
    ],
)  # fmt: skip
def test_a_capture_says_what_to_do(capture: Capture, sentence: str, under_a_heading: str) -> None:
    assert capture.sentence == sentence
    assert capture.wanted == under_a_heading
    assert capture.helps == (not sentence.startswith("nothing"))


def test_what_no_capture_helps_is_told_by_the_kind_and_not_by_the_words() -> None:
    asked = NotJudged.lacking("data-wait", "it", another_run("nothing like this step: capture another"), DIAGNOSE_RUN)
    useless = NotJudged.lacking("data-wait", "it", DIAGNOSE_RUN, nothing_helps("there is one rank"))

    assert to_capture(asked) == "nothing like this step: capture another; diagnose run"
    assert to_capture(useless) == ""
    assert useless.capture_next == "capture with diagnose run; nothing: there is one rank"


def test_a_trace_of_another_profiler_is_told_that_profilers_options() -> None:
    lost = next(rule for rule in RULES if rule.id == "lost-gpu-events")

    assert "without with_stack and profile_memory" in lost.advised({})
    assert "diagnose run --steps 1" in lost.advised(AFTER_RUN)
