"""Pinning and copying, with a device that is played."""

from collections import Counter

import pytest
import torch

from diagnose.probes.pipeline.measurement import to_device

pytestmark = pytest.mark.capture


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what is asked of a device that does nothing."""
    counted: Counter[str] = Counter()

    def counting(name: str) -> object:
        return lambda self, *args, **kwargs: counted.update([name]) or self

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: counted.update(["synchronize"]))
    monkeypatch.setattr(torch.Tensor, "pin_memory", counting("pin"), raising=False)
    monkeypatch.setattr(torch.Tensor, "to", counting("copy"), raising=False)
    return counted


@pytest.mark.parametrize("pinned", [True, False])
def test_a_batch_is_pinned_and_copied_from_where_the_job_leaves_it(calls: Counter[str], pinned: bool) -> None:
    batch = {"input_ids": torch.zeros(4, 8, dtype=torch.long), "labels": [torch.zeros(4)], "name": "a"}
    found = to_device(batch, 4, pinned, 0.002)
    times = found["copy"]["samples"] // 4

    assert found["copy"]["bytes"] == times * (4 * 8 * 8 + 4 * 4)
    assert found["copy"]["pinned"] is pinned
    assert calls["synchronize"] == times + 1  # the first does not count
    assert calls["copy"] == 2 * calls["synchronize"]
    assert calls["pin"] == 2 * (found["pin"]["samples"] // 4 + 1) + 2 * pinned


def test_a_batch_without_tensors_is_unknown(calls: Counter[str]) -> None:
    assert to_device(["text"], 1, False, 0.001)["copy"] == {"because": "a batch has no tensors in host memory"}
    assert not calls
