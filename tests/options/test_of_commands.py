"""Options of commands that start no job: what is printed and written with each of them, and not without."""

import pytest
from options.inputs import Inputs, reads_a_job
from options.rows import Calls, Row, assert_effect
from options.tables import ROWS


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory, inputs: Inputs) -> Calls:
    return Calls(inputs, tmp_path_factory.mktemp("calls"))


def of(row: Row) -> object:
    """The row, as a test that starts torch where it reads what a real job left."""
    marks = [pytest.mark.capture] if reads_a_job(row.with_it) else []
    return pytest.param(row, marks=marks, id=f"{row.command} {row.option}".strip())


@pytest.mark.parametrize("row", [of(row) for row in ROWS])
def test_the_option_has_its_effect_and_without_it_there_is_none(row: Row, calls: Calls) -> None:
    assert_effect(row, calls(row, row.without), calls(row, row.with_it))
