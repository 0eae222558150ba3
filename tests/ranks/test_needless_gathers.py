"""Sharded parameters that are gathered anew for each forward pass without gradients, on real jobs."""

from pathlib import Path

import pytest
from needs import needs
from two_ranks import diagnosed, fact, of_communication

pytestmark = [pytest.mark.capture, pytest.mark.slow]
WORDS = {"fully_shard": "model.set_reshard_after_forward(False)", "fsdp": "ShardingStrategy.SHARD_GRAD_OP"}


@pytest.mark.parametrize("kind", WORDS)
def test_eight_passes_gather_eight_times(kind: str, tmp_path: Path) -> None:
    needs("torch")
    found = diagnosed(tmp_path, "needless_gathers.py", kind)

    assert fact(found, "gathers_without_gradients_per_update") == 8
    assert 9 < fact(found, "parameter_gathers_per_update") < 11  # type: ignore[operator]
    if isinstance(share := fact(found, "needless_gather_share"), float) and share > 0.02:
        (told,) = [each for each in of_communication(found) if each.rule == "needless-gathers"]
        assert WORDS[kind] in told.do


@pytest.mark.parametrize("kind", WORDS)
def test_passes_that_keep_the_parameters_gather_once(kind: str, tmp_path: Path) -> None:
    needs("torch")
    found = diagnosed(tmp_path, "needless_gathers.py", kind, "--fixed")

    assert fact(found, "gathers_without_gradients_per_update") == 1
    assert [each.rule for each in of_communication(found) if each.rule == "needless-gathers"] == []
