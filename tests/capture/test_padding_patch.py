"""Padding that a patch cuts off the batches of a Trainer: the same samples, the same loss, or nothing is cut."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from capture.scripts import TRAINER, run, said

from diagnose.probes.apply.collator import cut, real_lengths
from diagnose.probes.facts.rows import RowSums, tokens_of

pytest.importorskip("transformers")
MASK = torch.tensor([[1, 1, 0, 0], [1, 0, 0, 0]])
IDS = torch.tensor([[5, 6, 0, 0], [7, 0, 0, 0]])


def test_columns_behind_the_longest_sample_are_cut_off_what_is_per_token() -> None:
    labels = IDS.masked_fill(MASK == 0, -100)
    batch, why_not = cut({"input_ids": IDS, "attention_mask": MASK, "labels": labels, "weights": torch.ones(2)})

    assert why_not == 0
    assert {key: list(value.shape) for key, value in batch.items()} == {
        "input_ids": [2, 2], "attention_mask": [2, 2], "labels": [2, 2], "weights": [2],
    }  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {"labels": IDS},
        {"bias": torch.zeros(2, 1, 4, 4)},
        {"positions": torch.arange(4)},
        {"texts": ["one", "two"]},
        {"attention_mask": MASK.flip(1)},
        {"attention_mask": MASK[0]},
    ],
    ids=["labels count there", "as wide elsewhere", "one for all samples", "a list", "padded left", "no such mask"],
)
def test_a_batch_in_which_more_may_depend_on_the_width_stays_as_it_is(more: dict[str, Any]) -> None:
    given = {"input_ids": IDS, "attention_mask": MASK, **more}
    batch, why_not = cut(given)

    assert batch is given
    assert why_not


def test_rows_tell_which_padding_is_theirs() -> None:
    sums = RowSums()
    sums.note([{"input_ids": [5, 6, 0]}, {"input_ids": [7, 0, 0]}], {"attention_mask": MASK})

    assert sums.facts() == {
        "batches": 1, "samples": 2, "padded_tokens": 3, "collated_tokens": 2, "with_ids": 2, "with_mask": 0,
        "least_length": 3, "most_length": 3, "collates": "unknown",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("row", "tokens"),
    [
        ({"input_ids": [1, 2], "labels": [1, 2, 3]}, 2),
        ({"chosen_ids": [1, 2, 3], "label": 0}, 3),
        ({"chosen_ids": [1, 2, 3], "rejected_ids": [1]}, None),
        ((torch.tensor([1, 2]), 0), 2),
        ({"text": "words"}, None),
    ],
)
def test_a_row_is_as_long_as_its_tokens(row: Any, tokens: int | None) -> None:
    assert tokens_of(row) == tokens


def test_lengths_without_padding_are_those_of_masks_that_can_be_read_without_computing_samples() -> None:
    assert real_lengths([{"attention_mask": [1, 1, 0]}, {"attention_mask": [1, 0, 0]}]) == [2, 1]
    assert real_lengths(SimpleNamespace()) is None


WIDE = """
rows = [[7] * (n % 5 + 2) for n in range(120)]
data = [{"input_ids": row + [0] * (16 - len(row)), "attention_mask": [1] * len(row) + [0] * (16 - len(row)),
         "labels": row + [-100] * (16 - len(row))} for row in rows]
for module in model.modules():
    module.attention_dropout = 0.0
seen = []
class Own(Trainer):
    def compute_loss(self, model, inputs, **more):
        loss = super().compute_loss(model, inputs, **more)
        seen.append((inputs["input_ids"].shape[1], round(float(loss), 4), int(inputs["attention_mask"].sum())))
        return loss
import diagnose.probes.bootstrap.sitecustomize
"""


def trained(folder: Path, patch: dict[str, dict[str, object]] | None, **more: object) -> tuple[list[Any], Any]:
    """Width, loss and real tokens of each batch of a training, with what the run said."""
    body = WIDE + f"trainer(Own, max_steps=6, save_strategy='no', **{more!r}).train()\nprint('seen', seen)\n"
    done = run(TRAINER + body, folder, {}, patch=patch or {"training_arguments": {"logging_steps": 2}})
    line = next(line for line in done.stdout.splitlines() if line.startswith("seen"))
    return json.loads(line[5:].replace("(", "[").replace(")", "]")), done


@pytest.mark.parametrize("workers", [0, 2])
def test_training_with_padding_cut_off_has_the_same_samples_and_losses(workers: int, tmp_path: Path) -> None:
    padded, _ = trained(tmp_path, None, dataloader_num_workers=workers)
    cut_off, done = trained(tmp_path, {"collator": {"padding": "longest"}}, dataloader_num_workers=workers)

    assert {width for width, _, _ in padded} == {16}
    assert max(width for width, _, _ in cut_off) <= 6
    assert [row[2] for row in cut_off] == [row[2] for row in padded]
    assert [row[1] for row in cut_off] == pytest.approx([row[1] for row in padded], abs=1e-3)
    assert not said(done)


def test_samples_are_grouped_by_their_length_without_padding(tmp_path: Path) -> None:
    patch = {
        "collator": {"padding": "longest"},
        "training_arguments": {"train_sampling_strategy": "group_by_length"},
    }
    batches, _ = trained(tmp_path, patch)

    assert sum(real for _, _, real in batches) > 0.9 * sum(2 * width for width, _, _ in batches)
