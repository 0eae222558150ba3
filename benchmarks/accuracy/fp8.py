"""What fp8 bought in published pairs, beside what the factors of `products-limited-by-bf16` foretell.

    python -m benchmarks.accuracy.fp8  # a second; prints the two tables of docs/whatif.md in Markdown

A pair is tokens per second and GPU of one job in bf16 and in fp8 (`fp8_pairs.csv`, each with its source). The time of
its linear layers in bf16 is their FLOPs at the rate that large products reach on an H100, recomputed ones included; the
head stays in bf16. What the pair saved, over that time, is the factor that it shows. Needs no GPU.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

from reporting import parser, table

from diagnose.formulas.fp8 import cast_s, product_factors

PAIRS = Path(__file__).with_name("fp8_pairs.csv")
RATE, BYTES_PER_S, PEAK_RATIO = 700e12, 3352e9, 989.4 / 1978.9  # H100: products reach 700 TFLOP/s of 989
DOCUMENTED = (  # torchao/float8/README.md: forward sizes of a linear layer, measured speed-up of its three products
    (1024, 2048, 1024, 0.80),
    (4096, 8192, 16384, 1.39),
)
Range = tuple[float, float]


@dataclass(frozen=True)
class Pair:
    """A job in bf16 and in fp8: tokens per second and GPU, and the sizes of the products that run on a GPU.

    Each of `ways` GPUs has its slice of every product. `tokens` are those of a product, `recomputed` the share of the
    forward products that runs again.
    """

    name: str
    recipe: str
    layers: int
    sizes: tuple[tuple[int, int], ...]
    ways: int
    tokens: int
    recomputed: float
    bf16: float
    fp8: float

    @property
    def measured(self) -> float:
        """Factor on tokens per second."""
        return self.fp8 / self.bf16

    @property
    def linear_s(self) -> float:
        """Seconds of a token's products in bf16."""
        weights = self.layers * self.ways * sum(inner * columns for inner, columns in self.sizes)
        return (6 + 2 * self.recomputed) * weights / RATE

    @property
    def factor_shown(self) -> float:
        """Time of the products in fp8 over that in bf16, if nothing else changed."""
        return 1 - (1 / self.bf16 - 1 / self.fp8) / self.linear_s

    @property
    def factors(self) -> Range:
        """The same by the formula of the rule, weighed by FLOPs."""
        each = [(inner * columns, factors_of(self.tokens, inner, columns)) for inner, columns in self.sizes]
        total = sum(weight for weight, _ in each)
        best, worst = (sum(weight * found[at] for weight, found in each) / total for at in (0, 1))
        return best, worst

    @property
    def predicted(self) -> Range:
        """[low, high] of the factor on tokens per second."""
        low, high = (1 / (1 - self.bf16 * self.linear_s * (1 - factor)) for factor in reversed(self.factors))
        return low, high


def factors_of(rows: int, inner: int, columns: int) -> Range:
    """Of a linear layer of these sizes, [best, worst]."""
    in_bf16_s = 2.0 * rows * inner * columns / RATE
    return product_factors(cast_s(rows, inner, columns, BYTES_PER_S) / in_bf16_s, 1.0, PEAK_RATIO)


def pairs(path: Path = PAIRS) -> list[Pair]:
    """The published pairs."""
    with path.open(newline="", encoding="utf-8") as file:
        return [_pair(row) for row in csv.DictReader(file)]


def _pair(row: dict[str, str]) -> Pair:
    hidden, kv, ffn, ways = (int(row[key]) for key in ("hidden", "kv", "ffn", "tensor_parallel"))
    up = [(hidden, ffn // ways)] * (2 if row["gated"] == "true" else 1)
    attention = [(hidden, hidden // ways), (hidden, kv // ways), (hidden, kv // ways), (hidden // ways, hidden)]
    return Pair(
        name=row["pair"],
        recipe=row["recipe"],
        layers=int(row["layers"]),
        sizes=(*attention, *up, (ffn // ways, hidden)),
        ways=ways,
        tokens=int(row["tokens"]),
        recomputed=float(row["recomputed"]),
        bf16=float(row["bf16"]),
        fp8=float(row["fp8"]),
    )


def pair_table(found: list[Pair]) -> str:
    """The pairs as a table in Markdown."""
    heads = (
        "pair", "scales", "products, of the bf16 step", "factor shown", "factor foretold", "step foretold", "measured"
    )  # fmt: skip
    return table(heads, map(_cells, found))


def _cells(pair: Pair) -> list[str]:
    best, worst = pair.factors
    low, high = pair.predicted
    return [
        pair.name, pair.recipe, f"{100 * pair.bf16 * pair.linear_s:.0f} %", f"{pair.factor_shown:.2f}",
        f"{best:.2f}-{worst:.2f}", f"{low:.2f}-{high:.2f}x", f"{pair.measured:.2f}x",
    ]  # fmt: skip


def layer_table() -> str:
    """The documented linear layers as a table in Markdown."""
    rows = []
    for *sizes, measured in DOCUMENTED:
        best, worst = factors_of(*sizes)
        rows.append((", ".join(map(str, sizes)), f"{1 / worst:.2f}-{1 / best:.2f}x", f"{measured:.2f}x"))
    return table(("tokens, inputs, outputs of a linear layer", "foretold", "measured"), rows)


if __name__ == "__main__":
    parser(__doc__, writes=False).parse_args()
    print(pair_table(pairs()), layer_table(), sep="\n\n")
