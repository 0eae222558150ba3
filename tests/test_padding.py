"""Padding: how sure its share is, and whether grouping by length cures it."""

from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Finding


def padded(
    folder: Path,
    lengths: tuple[int, int] = (512, 512),
    beyond: float = 0.0,
    batches: int = 24,
    error: float | None = None,
) -> Finding:
    """The finding of a job whose batches are padded by 37.5 % on average, `beyond` of it behind the longest sample."""
    job = Trace()
    for _ in range(4):
        with job.step():
            job.op("aten::mm", [[4096, 4096]] * 2, GEMM, 2000)
    tokens = 1_000_000
    seen = {
        "batches": batches,
        "tokens": tokens,
        "padded_tokens": 375_000,
        "share_error": error,
        "beyond_longest_tokens": round(beyond * tokens),
        "least_share": 0.19,
        "most_share": 0.5,
        "least_length": lengths[0],
        "most_length": lengths[1],
    }
    batch = {"shapes": {}, "tokens": None, "batches_seen": 4, "padding_share": 0.375, "padding": seen}
    found = analysed(folder, job, {"training_arguments": {}, "batch": batch})
    return next(f for f in found.findings if f.rule == "padded-batches")


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_share_says_of_how_many_batches_it_is_and_how_far_they_lie_apart(tmp_path: Path) -> None:
    finding = padded(tmp_path)

    assert "37.5 % of tokens of the batches seen (24 batches seen, 19.0 % to 50.0 % of each)" in words(finding.says)


def test_the_error_of_the_share_is_told_where_it_was_recorded(tmp_path: Path) -> None:
    finding = padded(tmp_path, error=0.021)

    assert "24 batches seen, 19.0 % to 50.0 % of each, standard error 2.1 %)" in words(finding.says)


def test_batches_of_one_length_that_no_sample_needs_are_to_be_padded_to_their_longest(tmp_path: Path) -> None:
    finding = padded(tmp_path, beyond=0.3)

    assert finding.patch is None, "grouping changes nothing"
    assert 'padding="longest"' in finding.do
    assert "saves 30.0 %" in words(finding.do)
    assert finding.predicted_speedup is not None
    assert finding.predicted_speedup[0] == pytest.approx(1 / 0.7, rel=0.02)


@pytest.mark.parametrize(
    ("lengths", "beyond"), [((96, 512), 0.0), ((512, 512), 0.01)], ids=["lengths differ", "rounded up to 8"]
)
def test_batches_padded_to_their_longest_are_grouped_by_length(tmp_path: Path, lengths: Any, beyond: float) -> None:
    finding = padded(tmp_path, lengths, beyond)

    assert finding.patch is not None
    assert finding.patch.set == {"train_sampling_strategy": "group_by_length"}


def test_of_few_batches_the_kind_is_not_told(tmp_path: Path) -> None:
    finding = padded(tmp_path, beyond=0.3, batches=3)

    assert finding.patch is None
    assert "If all batches have the same length" in words(finding.do)
