"""The cost of a fused loss in chunks, held against what was measured."""

import pytest

from diagnose.formulas.fused_loss import chunked_extra_s, chunks

H100, H200 = (700e12, 3.0e12), (798e12, 4.2e12)


@pytest.mark.parametrize(
    ("tokens", "hidden", "vocabulary", "number", "rows"),
    [
        (4096 * 4, 4096, 32000, 8, 2048),  # the example in Liger's source
        (7 * 1024, 2048, 128256, 56, 128),
        (100, 4096, 4096, 1, 100),  # a chunk is no larger than the batch
        (1, 512, 128256, 1, 1),
    ],
)
def test_chunks_are_those_of_liger(tokens: int, hidden: int, vocabulary: int, number: int, rows: int) -> None:
    assert chunks(tokens, hidden, vocabulary) == (number, rows)


@pytest.mark.parametrize(
    ("tokens", "hidden", "board", "measured_ms"),
    [(7 * 1024, 2048, H200, 25.5), (16 * 512, 1024, H200, 16.0), (14 * 1024, 2048, H100, 17.7)],
)
def test_measured_jobs_lie_within_a_quarter(
    tokens: int, hidden: int, board: tuple[float, float], measured_ms: float
) -> None:
    assert 1e3 * chunked_extra_s(tokens, hidden, 128256, *board) == pytest.approx(measured_ms, rel=0.25)


def test_one_chunk_of_a_large_batch_costs_next_to_nothing() -> None:
    at_once = 6.0 * 65536 * 4096 * 4096 / H100[0]

    assert chunked_extra_s(65536, 4096, 4096, *H100) < 0.001 * at_once
