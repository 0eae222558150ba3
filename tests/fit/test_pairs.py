"""Pairs of measured runs that differ in one switch: sign and size of the gain are as predicted."""

import numpy as np
import pytest
from fitting.megatron import megatron
from fitting.pairs import pairs
from fitting.rates import ratios
from fitting.rows import torchtitan, transformers
from public_tables import public_table

from diagnose.commands.fit.stacks import stack_of


@pytest.mark.parametrize("switch", ["liger", "attention", "dtype"])
def test_what_a_switch_bought_on_the_ladder(switch: str) -> None:
    found = [pair for pair in pairs(list(transformers()), stack_of("transformers")) if pair.switch == switch]
    assert len(found) >= 2
    for pair in found:
        assert pair.has_right_sign
        assert pair.low <= pair.measured <= pair.high
        assert pair.predicted == pytest.approx(pair.measured, rel=0.1)


@pytest.mark.parametrize(("switch", "fewest"), [("compiled", 1), ("fp8", 2)])
def test_what_compiling_and_fp8_bought_torchtitan(switch: str, fewest: int) -> None:
    rows = list(torchtitan(public_table("torchtitan.csv")))
    found = [pair for pair in pairs(rows, stack_of("torchtitan")) if pair.switch == switch]
    assert len(found) >= fewest
    for pair in found:
        assert pair.has_right_sign
        assert pair.low <= pair.measured <= pair.high


def test_megatron_s_dense_llama_is_predicted_within_its_stated_range() -> None:
    stack = stack_of("megatron")
    rows = list(megatron(public_table("megatron_bridge.csv")))
    errors = np.abs(ratios(rows, stack) - 1)
    assert len(rows) >= 10
    assert np.median(errors) <= max(high - 1 for _, high in stack.span.values())
