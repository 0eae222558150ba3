"""What padding to the longest, grouping and packing take away, by the lengths that were seen."""

import numpy as np
import pytest
from data_pipeline.measurements import made

from diagnose.commands.data.answer import Padding
from diagnose.commands.data.judge import report_of
from diagnose.commands.data.question import LoaderQuestion

SIZE = 10


def padding(
    lengths: list[int], width: int | None = None, of_dataset: int = 100_000, in_rows: int | None = None
) -> Padding:
    """Of batches of ten, as long as `width` or as their longest sample; `in_rows` is the padding that rows had."""
    batches = [lengths[at : at + SIZE] for at in range(0, len(lengths), SIZE)]
    shapes = [[len(each), width or max(each)] for each in batches]
    dataset = {"class": "Texts", "is_iterable": False, "collated": True, "samples": of_dataset}
    found = {"samples": lengths, "batches": shapes}
    if in_rows is not None:
        added = sum(count * length for count, length in shapes) - sum(lengths) - in_rows
        sums = {"padded_tokens": in_rows, "collated_tokens": added, "with_ids": len(lengths), "with_mask": 0}
        sums |= {"batches": len(batches), "samples": len(lengths), "least_length": 1, "most_length": 100}
        found["before_collation"] = sums
    return report_of(made(lengths=found, dataset=dataset), LoaderQuestion()).padding


def gains(of: Padding) -> dict[str, tuple[float, float, float] | None]:
    return {gain.name: gain.fewer_tokens for gain in of.gains}


def spread(count: int) -> list[int]:
    return np.random.default_rng(0).integers(1, 101, count).tolist()


def test_static_padding_is_told_by_a_length_that_no_sample_needs() -> None:
    assert padding([50] * 400, 100).kind == "static"
    assert padding(spread(400)).kind == "dynamic"
    assert padding([100] * 400, 100).kind == "none"
    assert padding([50] * 30, 100).kind == "unknown"  # three batches


def test_rows_that_are_padded_before_are_static_though_each_batch_has_one_that_is_long() -> None:
    lengths = ([20] * 9 + [100]) * 40
    found = padding(lengths, 100, in_rows=9 * 80 * 40)

    assert (found.kind, found.place) == ("static", "dataset")
    alone, both = (gains(found)[name] for name in list(gains(found))[:2])
    assert alone[2] < both[0] < 100 / 28 < both[2]
    assert padding(lengths, 100, in_rows=0).kind == "dynamic"


def test_batches_of_one_length_whose_rows_were_not_seen_promise_nothing() -> None:
    found = padding(([20] * 9 + [100]) * 40, 100)

    assert (found.kind, found.gains) == ("unknown", ())
    assert found.because.startswith("all batches have one length, which one sample of each has")


def test_samples_of_one_length_gain_by_each_change_what_the_padding_is() -> None:
    found = gains(padding([50] * 400, 100))

    assert found["pad each batch to its longest sample"] == pytest.approx((2, 2, 2))
    assert found["pad to the longest, and group by length"] == pytest.approx((2, 2, 2))
    assert found["pack samples"] == pytest.approx((2, 2, 2))


def test_grouping_comes_near_the_mean_length_and_packing_reaches_it() -> None:
    """Lengths from 1 to 100, 50.5 in the mean; the longest of ten is 91.4 in the mean, so that at most 1.81x goes."""
    found = padding(spread(5000))
    low, likely, high = gains(found)["group samples by length"]
    packed = gains(found)["pack samples"]

    assert 1.7 < low <= likely <= high < 1.84
    assert packed[2] == pytest.approx(1.81, abs=0.06)
    assert found.padded_share == pytest.approx(1 - 50.5 / 91.4, abs=0.02)


def test_more_samples_give_a_narrower_range_and_a_smaller_error() -> None:
    few, many = padding(spread(300)), padding(spread(6000))
    widths = [high - low for low, _, high in (gains(each)["group samples by length"] for each in (few, many))]

    assert widths[1] < widths[0]
    assert many.standard_error < few.standard_error


def test_few_samples_give_no_gain_unless_they_are_all() -> None:
    few = padding(spread(100), 128)

    assert few.kind == "static"
    assert all(gain.fewer_tokens is None and "--seconds" in gain.because for gain in few.gains)
    assert all(gain.fewer_tokens for gain in padding(spread(100), 128, of_dataset=100).gains)


def test_the_error_of_the_share_is_that_of_batches() -> None:
    """Half of the batches have no padding, half are half padding: 25 %, with 25 points of spread over 40 batches."""
    found = padding(([100] * 10 + [50] * 10) * 20, 100)

    assert found.padded_share == pytest.approx(0.25)
    assert found.standard_error == pytest.approx(0.25 / 40**0.5, rel=0.02)


def test_what_the_job_refuses_is_no_gain_and_asks_for_no_workers() -> None:
    refuses = [
        {"target": "training_arguments", "key": key, "value": None, "because": f"no {key}", "binds": "job"}
        for key in ("dataloader_num_workers", "train_sampling_strategy")
    ]
    lengths = spread(400)
    shapes = [[SIZE, max(lengths[at : at + SIZE])] for at in range(0, len(lengths), SIZE)]
    report = report_of(
        made(lengths={"samples": lengths, "batches": shapes}, refuses=refuses), LoaderQuestion(step_s=0.01)
    )
    grouped, packed = report.padding.gains

    assert (report.workers.refused, report.workers.least) == ("no dataloader_num_workers", None)
    assert (grouped.refused, grouped.fewer_tokens) == ("no train_sampling_strategy", None)
    assert packed.fewer_tokens is not None
