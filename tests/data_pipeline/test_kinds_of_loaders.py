"""Loaders of every kind that torch has."""

from pathlib import Path

import pytest
from data_pipeline.jobs import SIMPLE, measured
from needs import needs

pytestmark = pytest.mark.capture

LONG_S = 6.0  # so that samples are loaded several times on a busy host, too
ENDLESS = """
class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.ones(8)
"""


def test_an_iterable_dataset_without_a_length(tmp_path: Path) -> None:
    found = measured(SIMPLE + ENDLESS + "train(DataLoader(Endless(), batch_size=4, num_workers=1))", tmp_path)

    assert (found.dataset.is_iterable, found.dataset.samples, found.batch_size) == (True, None, 4)
    assert found.workers[0].samples_per_s
    assert found.restarts == 0


def test_an_iterable_dataset_that_ends_is_read_again(tmp_path: Path) -> None:
    script = ENDLESS.replace("while True", "for _ in range(10)") + "train(DataLoader(Endless(), batch_size=4))"
    found = measured(SIMPLE + script, tmp_path, LONG_S)

    assert found.restarts > 0
    assert found.workers[0].batches == 2  # of ten samples three batches, of which the first does not count


def test_items_that_are_not_batched(tmp_path: Path) -> None:
    found = measured(SIMPLE + "train(DataLoader(torch.ones(400, 8), batch_size=None))", tmp_path)

    assert (found.dataset.collated, found.batch_size) == (False, 1)
    assert found.lengths.samples == ()
    assert found.workers[0].batch_size == 1


def test_a_batch_sampler_of_its_own(tmp_path: Path) -> None:
    script = "train(DataLoader(torch.ones(400, 8), batch_sampler=[[1, 2, 3], [4, 5]] * 20))"
    found = measured(SIMPLE + script, tmp_path)

    assert found.fetch.samples > len(found.fetch.times_ns) * 2
    assert found.workers[0].samples_per_s


def test_a_dataset_that_fetches_many_at_once(tmp_path: Path) -> None:
    script = """
class Many(Dataset):
    def __len__(self):
        return 400
    def __getitems__(self, indices):
        return [torch.ones(8) for _ in indices]
train(DataLoader(Many(), batch_size=4))
"""
    assert measured(SIMPLE + script, tmp_path).fetch.samples > 0


def test_workers_that_cannot_be_started_are_unknown_with_the_reason(tmp_path: Path) -> None:
    script = """
class Odd(Dataset):
    def __init__(self):
        self.made = lambda: torch.ones(8)
    def __len__(self):
        return 400
    def __getitem__(self, index):
        return self.made()
train(DataLoader(Odd(), batch_size=4, num_workers=1, multiprocessing_context="spawn"))
"""
    found = measured(SIMPLE + script, tmp_path)

    assert found.workers[0].because.startswith("1 worker cannot load it: ")
    assert found.fetch.samples > 0


def test_accelerates_loader_is_looked_into(tmp_path: Path) -> None:
    needs("accelerate")
    script = """
from accelerate import Accelerator
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
prepared = Accelerator(cpu=True).prepare(model, optimizer, DataLoader(torch.ones(400, 8), batch_size=4))
for batch in prepared[2]:
    print("trained")
"""
    assert measured(SIMPLE + script, tmp_path).batch_size == 4
