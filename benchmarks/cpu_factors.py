"""What single precision and fused updates take of the time they replace, on one thread of this CPU.

    python benchmarks/cpu_factors.py --write benchmarks/reports

The factors of `rules/double-precision.toml` and `rules/cpu-optimizer.toml` on a host are read from its tables. Shares
are of medians, each of calls in a row that take some milliseconds together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import torch
from reporting import page, parser, publish, table
from torch.nn import functional

BATCH_S = 0.003  # that calls in a row take together, at least
WIDTHS = (32, 64, 128, 256, 512, 1024)
ROWS = (64, 512)
ELEMENTS = (1_000, 100_000, 10_000_000)
POINTWISE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "add": lambda x: x + x,
    "gelu": functional.gelu,
    "exp": torch.exp,
    "softmax": lambda x: functional.softmax(x.view(-1, 100), -1),
    "layer norm": lambda x: functional.layer_norm(x.view(-1, 100), (100,)),
    "sum": torch.sum,
    "copy": torch.clone,
}
OPTIMIZERS = (torch.optim.AdamW, torch.optim.Adam, torch.optim.Adagrad, torch.optim.SGD)
TENSORS = ((100, 200), (1_000, 200), (10_000, 100), (100_000, 40), (1_000_000, 8), (10_000_000, 1))


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The median of the call, of so many batches of calls after one that warms up."""
    begin = time.perf_counter()
    call()
    count = max(1, round(BATCH_S / (time.perf_counter() - begin)))

    def batch() -> float:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - begin) / count

    batch()
    return median(batch() for _ in range(repeats))


def share(fast: Callable[[], object], slow: Callable[[], object], repeats: int) -> str:
    """How much of the slow call's time the fast one takes."""
    return f"{seconds(fast, repeats) / seconds(slow, repeats):.0%}"


def products(repeats: int) -> Iterator[list[object]]:
    """Single of double precision, for products of square weights."""
    for width in WIDTHS:
        shares = []
        for rows in ROWS:
            x, w = torch.randn(rows, width), torch.randn(width, width)
            shares.append(share(partial(torch.matmul, x, w), partial(torch.matmul, x.double(), w.double()), repeats))
        yield [width, *shares]


def pointwise(repeats: int) -> Iterator[list[object]]:
    """Single of double precision, for what reads and writes each element."""
    for name, of in POINTWISE.items():
        shares = []
        for count in ELEMENTS:
            x = torch.randn(count)
            shares.append(share(partial(of, x), partial(of, x.double()), repeats))
        yield [name, *shares]


def updates(repeats: int) -> Iterator[list[object]]:
    """The fused form of the one for each tensor, by optimizer."""
    for optimizer in OPTIMIZERS:
        shares = []
        for elements, count in TENSORS:
            weights = [torch.randn(elements, requires_grad=True) for _ in range(count)]
            for weight in weights:
                weight.grad = torch.randn_like(weight)
            more = {"momentum": 0.9} if optimizer is torch.optim.SGD else {}
            one, each = (optimizer(weights, lr=1e-4, **form, **more) for form in ({"fused": True}, {"foreach": False}))
            shares.append(share(one.step, each.step, repeats))
        yield [optimizer.__name__, *shares]


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--repeats", type=int, default=15, help="batches of calls behind each median")
    asked = options.parse_args()
    torch.set_num_threads(1)
    parts = (
        "## Single of double precision: products of (rows, columns) and a square weight",
        table(("columns", *(f"{rows} rows" for rows in ROWS)), products(asked.repeats)),
        "## Single of double precision: other operators",
        table(("operator", *(f"{count:,} elements" for count in ELEMENTS)), pointwise(asked.repeats)),
        "## Fused of one update for each tensor",
        table(("optimizer", *(f"{count} x {elements:,}" for elements, count in TENSORS)), updates(asked.repeats)),
    )
    publish(page("Factors on a CPU", f"torch {torch.__version__}, one thread.", *parts), asked.write, "cpu-factors")


if __name__ == "__main__":
    main()
