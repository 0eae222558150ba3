"""Lengths of samples, by the mask of their batch or as they came from the dataset."""

import pytest
import torch

from diagnose.probes.pipeline.contents import Lengths

pytestmark = pytest.mark.capture

TEXT = list(range(100, 120))


def lengths(rows: list[list[int]], **more: torch.Tensor) -> Lengths:
    """Of a batch of samples that are all as long as it."""
    found = Lengths()
    found.note([{"input_ids": row} for row in rows], {"input_ids": torch.tensor(rows), **more})
    return found


def test_packed_rows_without_a_mask_are_as_long_as_they_look() -> None:
    assert lengths([TEXT, TEXT]).of_samples == [20, 20]


@pytest.mark.parametrize("row", [TEXT[:12] + [0] * 8, [0] * 8 + TEXT[:12]], ids=["right", "left"])
def test_rows_that_were_padded_before_and_have_no_mask_are_unknown(row: list[int]) -> None:
    found = lengths([TEXT, row])
    found.note([{"input_ids": TEXT}], {"input_ids": torch.tensor([TEXT])})

    assert found.facts()["samples"] == []
    assert found.because.startswith("no attention_mask tells whether the tokens that rows repeat")


def test_a_mask_tells_their_padding() -> None:
    padded = TEXT[:12] + [0] * 8

    assert lengths([padded], attention_mask=torch.tensor([[1] * 12 + [0] * 8])).of_samples == [12]
