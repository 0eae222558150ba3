"""Jobs without a GPU that spend most of their time in operators of one kind."""

from collections.abc import Callable

import torch
from profiled_jobs import trace_each

Step = Callable[[], object]


def random_numbers() -> Step:
    return lambda: torch.randn(2_000_000).add_(1)


def dropout() -> Step:
    x = torch.randn(512, 4096)
    return lambda: torch.nn.functional.dropout(x, 0.1)


def gathered() -> Step:
    rows_of, rows = torch.randn(50_000, 64), torch.randint(50_000, (100_000,))
    return lambda: (rows_of[rows], rows_of.index_select(0, rows), rows_of.gather(0, rows[:, None].expand(-1, 64)))


def embeddings() -> Step:
    table, ids = torch.nn.Embedding(100_000, 128), torch.randint(100_000, (256, 256))
    return lambda: table(ids)


def copies() -> Step:
    x = torch.randn(2048, 2048)
    return lambda: (x.to(torch.float64), x.t().contiguous(), torch.cat([x, x]))


def products() -> Step:
    model, x = torch.nn.Linear(1024, 1024), torch.randn(1024, 1024)
    return lambda: model(x).sum().backward()


def elementwise() -> Step:
    x, y = torch.randn(2, 3_000_000)
    return lambda: (x * y + x).relu_().mul_(2)


def sorting() -> Step:
    x = torch.randn(256, 4096)
    return lambda: x.sort(dim=-1)


if __name__ == "__main__":
    trace_each(
        {
            job.__name__: job
            for job in (random_numbers, dropout, gathered, embeddings, copies, products, elementwise, sorting)
        }
    )
