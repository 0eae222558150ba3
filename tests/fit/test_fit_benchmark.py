"""`benchmarks/fit.py` writes the rates that it fitted into the data of the product."""

import tomllib
from dataclasses import replace

import pytest
from fitting.fit_data import STACKS, ranges_text, updated
from fitting.fits import FREE

from diagnose.commands.fit.stacks import stacks


@pytest.mark.parametrize("name", FREE)
def test_what_is_fitted_is_written_and_nothing_else(name: str) -> None:
    text = STACKS.read_text(encoding="utf-8")
    rate = FREE[name][0]

    written = tomllib.loads(updated(text, replace(stacks()[name], **{rate: 0.123})))
    before = tomllib.loads(text)

    assert written[name][rate] == 0.123
    assert written == before | {name: before[name] | {rate: 0.123}}


def test_a_rate_that_the_data_lacks_is_no_silent_loss() -> None:
    stack = stacks()["nanotron"]
    without = "\n".join(line for line in STACKS.read_text(encoding="utf-8").splitlines() if "matrix_share" not in line)

    with pytest.raises(ValueError, match="matrix_share"):
        updated(without + "\n", stack)


def test_what_widens_a_range_is_written_as_it_is_read() -> None:
    stack = stacks()["transformers"]
    written = tomllib.loads(ranges_text({"board": (1.234, 5, "each chip")}, [stack]))
    assert written["factor"] == {"board": {"factor": 1.23, "rows": 5, "source": "each chip"}}
    rows = written["stack"]["transformers"]["measured"]
    assert [row["rows"] for row in rows] == [runs.rows for runs in stack.measured]
