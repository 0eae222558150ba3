"""Numbers that are searched: doubled until a run fails, then bisected."""

import pytest

from diagnose.commands.tune.proposals import Trial, next_value

CASES: dict[str, tuple[int, dict[int, Trial], int | None]] = {
    "the first is twice what is in use": (4, {}, 8),
    "doubled while it helps": (16, {8: "better", 16: "better"}, 32),
    "between the best and the one that failed": (16, {32: "failed"}, 24),
    "below a closer failure": (16, {32: "failed", 24: "failed"}, 20),
    "not nearer than a quarter": (20, {32: "failed", 24: "failed"}, None),
    "what runs and is no better ends it": (8, {16: "no better"}, None),
    "failures below what is in use say nothing": (8, {4: "failed"}, 16),
    "no value is left": (40, {}, None),
    "from none": (0, {}, 2),
    "from none, where the first fails": (0, {6: "failed"}, 3),
}


@pytest.mark.parametrize("name", CASES)
def test_next_value(name: str) -> None:
    in_use, trials, expected = CASES[name]

    assert next_value(range(1, 65), in_use, trials) == expected
