"""A patched loader gives the samples that it gives without the patch, in the same order; else the patch is refused."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest
from capture.scripts import run, said
from needs import needs

needs("torch")

WORKERS = {"num_workers": 2, "persistent_workers": True, "prefetch_factor": 3}
START = """
import os, random, sys, torch
import diagnose.probes.bootstrap.sitecustomize  # as in a process of `diagnose run --apply`
from torch.utils.data import *
torch.set_num_threads(1)
torch.manual_seed(3)
class Numbers(Dataset):
    def __len__(self):
        return 23
    def __getitem__(self, i):
        return torch.tensor([i, os.getpid() != main])
main, data, own = os.getpid(), Numbers(), torch.Generator().manual_seed(5)
def passes(loader, count=3, until=99):
    for _ in range(count):
        seen = []
        for batch in loader:
            seen += batch[:, 0].tolist()
            elsewhere = bool(batch[0, 1])
            if len(seen) >= until:
                break
        print(seen)
    print(torch.rand(1).item(), own.initial_seed(), torch.rand(1, generator=own).item())
    print("loaded elsewhere" if elsewhere else "loaded here", file=sys.stderr)
"""
LOADED_BY_A_WORKER = """
class Noisy(Numbers):
    def __getitem__(self, i):
        torch.rand(())
        return super().__getitem__(i)
passes(DataLoader(Noisy(), 4, shuffle=True, num_workers=1))
"""
OTHER_DRAWS = (
    "diagnose: loader workers draw the random numbers of the samples from seeds of their own: other draws, alike "
    "in kind"
)


def ran(folder: Path, body: str, patch: dict[str, object] | None) -> subprocess.CompletedProcess[str]:
    """The script with `body` in a process to which a patch of its loaders is handed; without one, as it is."""
    wanted = None if patch is None else {"dataloader": patch}
    return run(START + textwrap.dedent(body), folder, {}, patch=wanted)


ORDERS = {
    "in sequence": "passes(DataLoader(data, 4))",
    "shuffled": "passes(DataLoader(data, 4, shuffle=True))",
    "shuffled, passes left early": "passes(DataLoader(data, 4, shuffle=True), until=8)",
    "by a generator of the job's": "passes(DataLoader(data, 4, shuffle=True, generator=own))",
    "by its own generator, passes left early": "passes(DataLoader(data, 4, shuffle=True, generator=own), until=16)",
    "drawn with replacement": """
        passes(DataLoader(data, 4, sampler=RandomSampler(data, True, 70, generator=own)), until=20)""",
    "by weights": "passes(DataLoader(data, 4, sampler=WeightedRandomSampler([1.0] * 23, 40)))",
    "of a rank": """
        sampler = torch.utils.data.distributed.DistributedSampler(data, 2, 0)
        passes(DataLoader(data, 4, sampler=sampler))""",
    "in batches of a sampler": "passes(DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 5, True)))",
    "two passes at a time": """
        loader = DataLoader(data, 4, shuffle=True)
        print([(a[:, 0].tolist(), b[:, 0].tolist()) for a, b in zip(loader, loader)])
        passes(loader)""",
}


@pytest.mark.parametrize("order", ORDERS)
def test_samples_come_in_the_order_of_the_job_without_the_patch(order: str, tmp_path: Path) -> None:
    plain = ran(tmp_path / "plain", ORDERS[order], None)
    patched = ran(tmp_path / "patched", ORDERS[order], WORKERS)

    assert (plain.returncode, patched.returncode) == (0, 0), patched.stderr
    assert ("loaded here" in plain.stderr, "loaded elsewhere" in patched.stderr) == (True, True)
    assert patched.stdout == plain.stdout
    assert said(patched) == []


def test_persistent_workers_start_anew_when_the_dataset_changes_between_passes(tmp_path: Path) -> None:
    body = """
    class Moving(Numbers):
        epoch = 0
        def __getitem__(self, i):
            return super().__getitem__(i) + torch.tensor([100 * self.epoch, 0])
    data = Moving()
    loader = DataLoader(data, 8)
    for data.epoch in range(3):
        passes(loader, 1)
    """
    plain, patched = (ran(tmp_path / str(len(p or ())), body, p) for p in (None, WORKERS))

    assert "loaded elsewhere" in patched.stderr
    assert patched.stdout == plain.stdout
    assert "[200, 201, 202" in plain.stdout


REFUSED = {
    "a stream": (
        """
        class Stream(IterableDataset):
            def __iter__(self):
                return iter([torch.tensor([i, 0]) for i in range(6)])
        passes(DataLoader(Stream(), 2))""",
        "num_workers (each worker would repeat the data of an IterableDataset)",
    ),
    "augmentation that moves the order of later passes": (
        """
        class Noisy(Numbers):
            def __getitem__(self, i):
                return super().__getitem__(i) + int(torch.randint(2, ()))
        passes(DataLoader(Noisy(), 4, shuffle=True))""",
        "num_workers (a sample draws from torch's generator, and so does the order of the next pass: give the "
        "DataLoader a generator of its own, or type it)",
    ),
    "masks drawn by the collator": (
        """
        def masked(rows):
            return torch.stack(rows) * torch.randint(2, (len(rows), 1))
        passes(DataLoader(data, 4, shuffle=True, collate_fn=masked))""",
        "num_workers (a sample draws from torch's generator, and so does the order of the next pass: give the "
        "DataLoader a generator of its own, or type it)",
    ),
    "a dataset that reads on": (
        """
        class Reader(Numbers):
            rows = iter(range(1000))
            def __getitem__(self, i):
                return torch.tensor([next(self.rows), 0])
        passes(DataLoader(Reader(), 4))""",
        "num_workers (the same sample comes out differently a second time: the dataset keeps a state, and workers "
        "have copies)",
    ),
    "a file held open": (
        """
        class Lines(Numbers):
            file = None
            def __init__(self):
                self.file = open(__file__)
            def __getitem__(self, i):
                self.file.seek(i)
                return torch.tensor([ord(self.file.read(1)), 0])
        passes(DataLoader(Subset(Lines(), range(9)), 4))""",
        "num_workers (the dataset holds a file open (file), whose position its workers would share)",
    ),
    "a sampler of the job's": (
        """
        class Drawing(Sampler):
            def __len__(self):
                return 8
            def __iter__(self):
                return (int(torch.randint(23, ())) for _ in range(8))
        passes(DataLoader(data, 4, sampler=Drawing()))""",
        "num_workers (workers read the sampler ahead of the loop, and Drawing may draw as it goes)",
    ),
    "batches that no process can send": (
        """
        class Rows(list):
            def __reduce__(self):
                raise TypeError("not to be sent")
        def collated(rows):
            return Rows(rows)
        for batch in DataLoader(data, 4, collate_fn=collated):
            print(len(batch))""",
        "num_workers (a sample cannot be fetched in a worker: TypeError: not to be sent)",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_workers_that_would_change_the_samples_are_refused(case: str, tmp_path: Path) -> None:
    body, because = REFUSED[case]
    plain = ran(tmp_path / "plain", body, None)
    patched = ran(tmp_path / "patched", body, WORKERS)

    assert said(patched)[0] == f"diagnose: not applied: {because}"[:219]
    assert (patched.returncode, patched.stdout) == (0, plain.stdout)


def test_draws_that_move_no_order_are_said(tmp_path: Path) -> None:
    body = """
    class Flipped(Numbers):
        def __getitem__(self, i):
            random.random()
            return super().__getitem__(i)
    passes(DataLoader(Flipped(), 4, shuffle=True))
    """
    plain, patched = (ran(tmp_path / str(len(p or ())), body, p) for p in (None, WORKERS))

    assert "loaded elsewhere" in patched.stderr
    assert patched.stdout == plain.stdout
    assert said(patched) == [OTHER_DRAWS]


@pytest.mark.parametrize("patch", [{"num_workers": 3}, {"num_workers": 3, "persistent_workers": True}])
def test_draws_of_workers_that_the_job_has_already_move_no_order(patch: dict[str, object], tmp_path: Path) -> None:
    plain, patched = (ran(tmp_path / str(len(p or ())), LOADED_BY_A_WORKER, p) for p in (None, patch))

    assert patched.stdout == plain.stdout
    assert said(patched) == [OTHER_DRAWS]


def test_workers_are_not_taken_from_a_loader_whose_samples_draw(tmp_path: Path) -> None:
    plain, patched = (ran(tmp_path / str(len(p or ())), LOADED_BY_A_WORKER, p) for p in (None, {"num_workers": 0}))

    assert said(patched)[0].startswith("diagnose: not applied: num_workers (a sample draws from torch's generator")
    assert patched.stdout == plain.stdout


def test_workers_that_persist_stay_as_the_job_has_them(tmp_path: Path) -> None:
    body = "passes(DataLoader(data, 4, shuffle=True, num_workers=1, persistent_workers=True))"
    done = ran(tmp_path, body, {"persistent_workers": False})

    assert said(done) == [
        "diagnose: not applied: persistent_workers (later passes would come in another order: workers that persist "
        "save a draw from the generator)"
    ]


def test_loaders_that_accelerate_makes_keep_the_order_too(tmp_path: Path) -> None:
    needs("accelerate")
    body = """
    from accelerate import Accelerator
    passes(Accelerator(cpu=True).prepare(DataLoader(data, 4, shuffle=True)))
    """
    plain, patched = (ran(tmp_path / str(len(p or ())), body, p) for p in (None, WORKERS))

    assert "loaded elsewhere" in patched.stderr, patched.stderr
    assert patched.stdout == plain.stdout
