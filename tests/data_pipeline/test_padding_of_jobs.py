"""Padding as the job's own batches have it."""

from pathlib import Path

import pytest
from data_pipeline.jobs import SIMPLE, TEXTS, report

pytestmark = pytest.mark.capture


def test_padding_to_one_length_is_static_and_padding_to_the_longest_gains(tmp_path: Path) -> None:
    static = "train(DataLoader(Texts(), batch_size=4, shuffle=True, collate_fn=lambda each: padded(each, 1024)))"
    padding = report(TEXTS + static, tmp_path).padding

    assert padding.kind == "static"
    assert padding.padded_share == pytest.approx(1 - 320 / 1024, abs=0.05)
    assert padding.standard_error is not None
    gains = {gain.name: gain.fewer_tokens for gain in padding.gains}
    assert list(gains) == [
        "pad each batch to its longest sample",
        "pad to the longest, and group by length",
        "pack samples",
    ]
    low, likely, high = gains["pad each batch to its longest sample"]
    assert 1.5 < low <= likely <= high < 3
    assert gains["pack samples"][1] > likely


def test_padding_to_the_longest_of_a_batch_is_dynamic(tmp_path: Path) -> None:
    padding = report(
        TEXTS + "train(DataLoader(Texts(), batch_size=16, shuffle=True, collate_fn=padded))", tmp_path
    ).padding

    assert padding.kind == "dynamic"
    assert [gain.name for gain in padding.gains] == ["group samples by length", "pack samples"]
    assert all(gain.fewer_tokens is not None and gain.fewer_tokens[0] > 1.2 for gain in padding.gains)


def test_samples_without_tokens_have_no_lengths(tmp_path: Path) -> None:
    padding = report(SIMPLE + "train(DataLoader(torch.ones(400, 8), batch_size=4))", tmp_path, seconds=1).padding

    assert padding.kind == "unknown"
    assert padding.because == "batches have no input_ids of samples x tokens"
    assert padding.gains == ()
