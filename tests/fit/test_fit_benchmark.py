"""`benchmarks/fit.py` writes the rates that it fitted into the data of the product."""

import tomllib
from dataclasses import replace

import pytest
from fit import DATA, FREE, updated

from diagnose.commands.fit.stacks import stacks


@pytest.mark.parametrize("name", FREE)
def test_what_is_fitted_is_written_and_nothing_else(name: str) -> None:
    text = DATA.read_text(encoding="utf-8")
    rate = FREE[name][0]

    written = tomllib.loads(updated(text, replace(stacks()[name], **{rate: 0.123})))
    before = tomllib.loads(text)

    assert written[name][rate] == 0.123
    assert written == before | {name: before[name] | {rate: 0.123}}


def test_a_rate_that_the_data_lacks_is_no_silent_loss() -> None:
    stack = stacks()["nanotron"]
    without = "\n".join(line for line in DATA.read_text(encoding="utf-8").splitlines() if "matrix_share" not in line)

    with pytest.raises(ValueError, match="matrix_share"):
        updated(without + "\n", stack)
