"""Products with one-hot rows, in traces of real jobs: named where they pick rows, and no labels of a loss."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, schedule

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis

RULE = "one-hot-products"
WORDS, WIDTH, BATCH = 3000, 32, 256
Forward = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def by_one_hot(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return functional.one_hot(ids, WORDS).float() @ table


def by_scatter(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.zeros(BATCH, WORDS).scatter_(1, ids[:, None], 1) @ table


def by_lookup(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return functional.embedding(ids, table)


def smoothed_loss(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    likely = (table[ids] @ table.T).log_softmax(-1)
    return -(torch.full_like(likely, 0.1 / WORDS).scatter_(1, ids[:, None], 0.9) * likely).sum(1)


def diagnosed(folder: Path, forward: Forward, record_shapes: bool = True) -> Diagnosis:
    table = torch.randn(WORDS, WIDTH, requires_grad=True)
    optimizer = torch.optim.SGD([table], lr=0.1)
    steps = schedule(wait=1, warmup=1, active=4)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps, record_shapes=record_shapes) as profiled:
        for _ in range(6):
            forward(torch.randint(0, WORDS, (BATCH,)), table).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiled.step()
    profiled.export_chrome_trace(str(folder / "trace.json"))
    return analyze(folder / "trace.json")


@pytest.mark.parametrize("forward", [by_one_hot, by_scatter])
def test_rows_picked_by_a_product_are_named(tmp_path: Path, forward: Forward) -> None:
    answer = diagnosed(tmp_path, forward)

    found = next(each for each in answer.findings if each.rule == RULE)
    assert found.severity == "critical"
    assert found.predicted_speedup is not None
    assert found.predicted_speedup[0] > 1.1


@pytest.mark.parametrize("forward", [by_lookup, smoothed_loss])
def test_lookups_and_labels_of_a_loss_are_not(tmp_path: Path, forward: Forward) -> None:
    assert RULE not in {each.rule for each in diagnosed(tmp_path, forward).findings}


def test_without_sizes_it_is_unknown(tmp_path: Path) -> None:
    assert RULE in {each.rule for each in diagnosed(tmp_path, by_one_hot, record_shapes=False).not_judged}
