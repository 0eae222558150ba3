"""What of a dataset can be told without fetching a sample: whether workers split it, and what its samples hold."""

from __future__ import annotations

from typing import Any

import pytest

from diagnose.probes.apply.samples import grouping_refused
from diagnose.probes.apply.worker_split import splits_by_worker
from diagnose.probes.facts.shards import shards

torch = pytest.importorskip("torch")
DataCollatorForLanguageModeling = pytest.importorskip("transformers").DataCollatorForLanguageModeling
transformers = pytest.importorskip("transformers.trainer_pt_utils")
data = torch.utils.data


def which() -> Any:
    return data.get_worker_info()


class Plain(data.IterableDataset):
    def __iter__(self) -> Any:
        return iter(range(9))


class Seeding(Plain):
    def __iter__(self) -> Any:
        yield DataCollatorForLanguageModeling  # which asks for the worker, to seed


class Asking(Plain):
    def __iter__(self) -> Any:
        return iter(range(torch.utils.data.get_worker_info().id, 9))


class Helped(Plain):
    def __iter__(self) -> Any:
        return iter([which()])


class Around(Plain):
    def __init__(self, inner: Any) -> None:
        self.inner = inner


STREAMS = {
    "plain": (Plain(), False),
    "asks": (Asking(), True),
    "a function that it calls asks": (Helped(), True),
    "a function that it is given asks": (Around(which), True),
    "a dataset inside asks": (Around(Asking()), True),
    "a dataset inside does not": (Around(Plain()), False),
    "a shard of one that asks": (transformers.IterableDatasetShard(Asking()), True),
    "a shard of one that does not": (transformers.IterableDatasetShard(Plain()), False),
    "a chain": (data.ChainDataset([Asking()]), True),
    "a library asks for another reason": (Seeding(), False),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_whether_workers_split_an_iterable_dataset_is_read_from_its_code(kind: str) -> None:
    dataset, splits = STREAMS[kind]

    assert splits_by_worker(dataset) == splits


def test_what_a_worker_runs_first_may_split_the_data() -> None:
    assert splits_by_worker(Plain(), lambda worker: data.get_worker_info())


def test_streams_of_hugging_face_split_themselves() -> None:
    datasets = pytest.importorskip("datasets")

    assert splits_by_worker(datasets.Dataset.from_dict({"a": [1, 2]}).to_iterable_dataset(num_shards=2))


def test_streams_of_hugging_face_know_their_shards() -> None:
    datasets = pytest.importorskip("datasets")
    stream = datasets.Dataset.from_dict({"a": list(range(8))}).to_iterable_dataset(num_shards=3)

    assert shards(data.DataLoader(stream)) == 3
    assert shards(data.DataLoader(stream.map(lambda row: row).shuffle(buffer_size=2))) == 3
    assert shards(data.DataLoader(Plain())) is None


WITHOUT, WITH = [{"chosen_ids": [1], "labels": 1}] * 4, [{"input_ids": [1], "labels": 1}] * 4


class Rows(data.Dataset):
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        return self.rows[i]


class Written(Rows):
    def __getitem__(self, i: int) -> Any:
        return {"chosen_ids": self.rows[i], "labels": 1}


class Tupled(Rows):
    def __getitem__(self, i: int) -> Any:
        return self.rows[i], 1


class Tokenised(Rows):
    def __getitem__(self, i: int) -> Any:
        return which(self.rows[i])  # type: ignore[call-arg]


class Merged(Rows):
    def __getitem__(self, i: int) -> Any:
        return {**self.rows[i], "labels": 1, "weight": 2}


SAMPLES = {
    "a list without": (WITHOUT, "NO_LENGTHS"),
    "a list with": (WITH, None),
    "rows that it holds, without": (Rows(WITHOUT), "NO_LENGTHS"),
    "rows that it holds, with": (Rows(WITH), "UNLISTED"),
    "tensors": (data.TensorDataset(torch.ones(3)), "NO_LENGTHS"),
    "a part": (data.Subset(Rows(WITHOUT), [0]), "NO_LENGTHS"),
    "several": (data.ConcatDataset([Rows(WITHOUT)]), "NO_LENGTHS"),
    "tuples": (Tupled(WITH), "NO_LENGTHS"),
    "made by a function": (Tokenised(WITHOUT), "UNLISTED"),
    "merged": (Merged(WITHOUT), "UNLISTED"),
}


@pytest.mark.parametrize("kind", SAMPLES)
def test_what_samples_hold_is_read_where_it_is_written_out(kind: str) -> None:
    samples, refused = SAMPLES[kind]
    refusal = grouping_refused(samples, "length", "input_ids")

    assert (refusal and refusal.reason.name) == refused
