"""Conditions of rules in words."""

import pytest
from explain_answers import rules

from diagnose.commands.explain.conditions import in_words
from diagnose.metrics import units
from diagnose.rule.condition import Condition


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("data_wait_share > 0.20", "data wait is above 20 % of the step"),
        ("0.1 <= data_wait_share < 0.5", "10 % is at most data wait and data wait is below 50 % of the step"),
        ("has_gpu and dispatch_share + launch_latency_share > 0.2",
         "has GPU is yes and dispatch + launch latency is above 20 % of the step"),
        ("not is_compiled", "is compiled is no"),
        ('loader_workers == "none" or (has_gpu and world_size > 1)',
         "loader workers is none, or (has GPU is yes and world size is above 1)"),
        ("mean_kernel_ns < 5e3", "mean kernel is below 5.0 us"),
        ("memory_peak_bytes > 0.5 * memory_total_bytes", "memory peak is above 0.5 x memory total"),
        ("first_known(world_size, 1) > 1", "world size (if unknown 1) is above 1"),
        ("max(data_share, host_share) > 0.1", "the most of data and host is above 10 % of the step"),
    ],
)  # fmt: skip
def test_a_condition_in_words(condition: str, words: str) -> None:
    assert in_words(Condition.parse(condition, units()), units()) == words


def test_no_condition_of_a_rule_is_left_in_code() -> None:
    told = [in_words(condition, units()) for rule in rules().values() for _, condition in rule.conditions]

    assert [each for each in told if "_" in each or "==" in each or ">" in each] == []
