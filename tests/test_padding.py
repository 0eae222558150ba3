"""Padding: how sure its share is, and whether grouping by length cures it."""

from pathlib import Path
from typing import Any

import pytest
from analysed import GEMM
from kineto import Trace
from remedies.single_gpu_jobs import analysed

from diagnose.diagnosis import Finding, Patch
from diagnose.patch.job_framework import JobFramework
from diagnose.patch.patches import python_lines

BY_TOKENS = [[tokens, 10] for tokens in range(128, 513, 16)]  # 320 in the mean, as 62.5 % of 512


def before(in_rows: int, by_collating: int, **more: Any) -> dict[str, Any]:
    """Rows before they were collated, with so much padding of their own, and so much that was added."""
    counts = {"batches": 24, "samples": 192, "with_ids": 192, "with_mask": 192, "least_length": 1, "most_length": 512}
    return {"padded_tokens": in_rows, "collated_tokens": by_collating, "collates": "unknown", **counts, **more}


STATIC, DYNAMIC = before(375_000, 0), before(0, 375_000)


def padded(
    folder: Path,
    lengths: tuple[int, int] = (512, 512),
    beyond: float = 0.0,
    batches: int = 24,
    error: float | None = None,
    rows: dict[str, Any] | None = None,
    refuses: list[dict[str, Any]] = [],  # noqa: B006
    arguments: dict[str, Any] = {},  # noqa: B006
) -> Finding:
    """The finding of a job whose batches are padded by 37.5 % on average, `beyond` of it behind the longest sample.

    `rows` is what was seen of them before they were collated.
    """
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
        "most_beyond_longest": round(beyond * lengths[1]),
        "samples_by_tokens": BY_TOKENS,
    }
    batch = {"shapes": {}, "tokens": None, "batches_seen": 4, "padding_share": 0.375, "padding": seen, "rows": rows}
    record = {"training_arguments": arguments, "training_loop": "transformers Trainer", "refuses": refuses}
    found = analysed(folder, job, {**record, "batch": batch})
    return next(f for f in found.findings if f.rule == "padded-batches")


NO_LENGTHS = {
    "target": "training_arguments",
    "key": "train_sampling_strategy",
    "value": "group_by_length",
    "because": "its samples hold neither input_ids nor their lengths",
    "binds": "job",
    "unless_set": None,
}
TRAINER_JOB = JobFramework("transformers Trainer", {})
CURE = {"padding": "attention_mask", "train_sampling_strategy": "group_by_length"}


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_share_says_of_how_many_batches_it_is_and_how_far_they_lie_apart(tmp_path: Path) -> None:
    finding = padded(tmp_path)

    assert "37.5 % of tokens of the batches seen (24 batches seen, 19.0 % to 50.0 % of each)" in words(finding.says)


def test_the_error_of_the_share_is_told_where_it_was_recorded(tmp_path: Path) -> None:
    finding = padded(tmp_path, error=0.021)

    assert "24 batches seen, 19.0 % to 50.0 % of each, standard error 2.1 %)" in words(finding.says)


def test_rows_that_are_padded_in_the_dataset_get_no_group_by_length_alone(tmp_path: Path) -> None:
    """In nearly each batch one row is as long as all: only the rows tell that the padding is not the batch's."""
    finding = padded(tmp_path, beyond=0.004, rows=STATIC)

    assert words(finding.do).startswith('Tokenise without padding="max_length"')
    assert finding.patch is not None
    assert list(finding.patch.set) == ["padding", "train_sampling_strategy"]
    assert finding.patch.by_run == {
        "collator": {"padding": "longest"},
        "training_arguments": {"train_sampling_strategy": "group_by_length"},
    }
    low, high = finding.predicted_speedup
    assert 1.2 < low < 1.6 <= high


def test_the_lines_to_type_unpad_rows_and_group_them() -> None:
    lines = python_lines(TRAINER_JOB.patch(Patch(target="training_arguments", set=CURE), {"transformers": "4.57.1"}))
    datasets = pytest.importorskip("datasets")
    train_dataset = datasets.Dataset.from_list(
        [{"input_ids": [7, 8, 0], "attention_mask": [1, 1, 0], "labels": 1, "text": "a"}]
    )
    scope = {"train_dataset": train_dataset}
    exec(lines[0], scope)

    assert scope["train_dataset"][0] == {"input_ids": [7, 8], "attention_mask": [1, 1], "labels": 1, "text": "a"}
    assert lines[1:] == ["TrainingArguments(..., group_by_length=True)"]


def test_rows_without_a_mask_are_tokenised_anew_and_a_collator_that_cannot_pad_is_replaced(tmp_path: Path) -> None:
    finding = padded(tmp_path, rows=STATIC | {"with_mask": 0, "collates": "fails"})

    assert finding.patch is not None
    assert [finding.patch.set[key].split("  #")[0] for key in ("padding", "data_collator")] == [
        "tokenizer(..., truncation=True)",
        "Trainer(..., data_collator=DataCollatorWithPadding(tokenizer))",
    ]


def test_a_collate_function_that_pads_to_one_length_is_replaced(tmp_path: Path) -> None:
    finding = padded(tmp_path, beyond=0.3, rows=DYNAMIC)

    assert words(finding.do).startswith("Pad each batch to its longest sample in the data collator")
    assert "alone saves 30.0 %" in words(finding.do)
    assert finding.patch is not None
    assert list(finding.patch.set) == ["data_collator", "train_sampling_strategy"]


def test_grouping_that_is_set_already_does_not_hide_that_rows_are_padded(tmp_path: Path) -> None:
    finding = padded(tmp_path, rows=STATIC, arguments={"train_sampling_strategy": "group_by_length"})

    assert finding.action == "pad in the collator, and group by length"


def test_where_the_trainer_cannot_group_static_rows_are_unpadded_first(tmp_path: Path) -> None:
    finding = padded(tmp_path, rows=STATIC, refuses=[NO_LENGTHS])

    assert finding.patch is None
    assert words(finding.do).startswith('Tokenise without padding="max_length"')
    assert "group_by_length" not in finding.do


@pytest.mark.parametrize(
    ("lengths", "beyond", "rows"),
    [((96, 512), 0.0, None), ((512, 512), 0.01, DYNAMIC)],
    ids=["lengths differ", "rounded up to 8"],
)
def test_batches_padded_to_their_longest_are_grouped_by_length(
    tmp_path: Path, lengths: Any, beyond: float, rows: Any
) -> None:
    finding = padded(tmp_path, lengths, beyond, rows=rows)

    assert finding.patch is not None
    assert finding.patch.set == {"train_sampling_strategy": "group_by_length"}


@pytest.mark.parametrize(("beyond", "batches"), [(0.3, 3), (0.0, 24)], ids=["few batches", "one length"])
def test_padding_of_an_unknown_kind_promises_nothing_and_names_dynamic_padding_first(
    tmp_path: Path, beyond: float, batches: int
) -> None:
    finding = padded(tmp_path, beyond=beyond, batches=batches)

    assert (finding.patch, finding.predicted_speedup) == (None, None)
    assert finding.action == "pad each batch to its longest sample"
