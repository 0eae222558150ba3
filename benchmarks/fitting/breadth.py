"""Parameters and FLOPs of current architectures from their configurations, beside what transformers and torch count.

    python -m benchmarks.fitting.breadth [--types llama,mixtral] [--write]

Each type of `architectures.toml` is built on the meta device, which holds no weights. The parameters are those of the
model. The FLOPs of a token are what torch's FlopCounterMode counts in a forward and backward pass with eager attention,
where each token is multiplied with the experts that it takes. The pairs are those that the masks of transformers let
through. A cell that differs by more than 1 % is a defect; a type that is not counted has the reason that users read.
With `--write` the page `docs/models.md` is written beside the dated report, unless `--types` chooses some.
"""

import json
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from reporting import page, parser, publish, table
from torch.utils.flop_counter import FlopCounterMode
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import causal_pairs_per_token, flops_per_token
from diagnose.formulas.unknown_models import why_unknown

ARCHITECTURES = Path(__file__).parent / "architectures.toml"
PAGE = Path(__file__).parent.parent.parent / "docs" / "models.md"
TOKENS = 512  # as many as BERT has positions for
WINDOW = 128  # of the layers that have one, where pairs are counted
ALLOWED = 0.01
_PAGE_HEAD = """<!-- Written by `python -m benchmarks.fitting.breadth --write`. -->
# Models whose sizes are known

From a model's configuration `diagnose` counts its parameters, the FLOPs of a token and the query-key pairs of its
attention: [MFU](mfu.md), [the memory of a step](memory.md) and [`diagnose fit`](fit.md) rest on them. Each type is held
against an independent count: the parameters of the model that transformers builds, the FLOPs that torch's
FlopCounterMode counts in a forward and backward pass with eager attention (`palm`), and the pairs that the masks of
transformers let through (`causal`). Sizes are the defaults of the type's class, or those of the model that
[the survey](../benchmarks/fitting/architectures.toml) names.

A type that is not counted is unknown, never estimated. `analyze` then takes MFU from the operators that ran, or from
`--flops-per-step`; `fit` refuses its `config.json`. Both name the part that no formula counts. Of a model of vision and
language, `fit` plans the language model alone if its type is known: pass its `text_config` as a file of its own, with
the `tie_word_embeddings` of the whole."""
_CLASSES = ("ImageTextToText", "CausalLM", "MaskedLM", "Seq2SeqLM", "SpeechSeq2Seq", "PreTraining")
_AUTO = [getattr(transformers, f"AutoModelFor{name}") for name in _CLASSES] + [transformers.AutoModel]


@dataclass(frozen=True)
class Count:
    """A figure from the configuration and what counts it independently; None where this cannot be done."""

    ours: float
    independent: float | None

    @property
    def error(self) -> float | None:
        """The difference as a share of the independent count."""
        return None if self.independent is None else self.ours / self.independent - 1


@dataclass(frozen=True)
class Row:
    """One architecture: its counts by name, or why it has none."""

    kind: str
    model_type: str
    parameters: int | None
    counts: Mapping[str, Count]
    reason: str = ""

    @property
    def is_right(self) -> bool:
        """Whether no count is off by more than is allowed."""
        return all(abs(count.error or 0.0) <= ALLOWED for count in self.counts.values())


def architectures() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Kind, type and stated entries of each architecture."""
    for kind, types in tomllib.loads(ARCHITECTURES.read_text(encoding="utf-8")).items():
        for model_type, entries in types.items():
            yield kind, model_type, entries


def row_of(kind: str, model_type: str, entries: Mapping[str, Any]) -> Row:
    """The counts of one architecture."""
    if "_class_name" in entries:
        return Row(kind, model_type, None, {}, why_unknown("", entries))
    model = built(model_type, entries)
    config = json.loads(model.config.to_json_string())  # as a config.json holds it
    shape = ModelShape.from_config(model_type, config, type(model).__name__)
    if shape is None:
        return Row(kind, model_type, model.num_parameters(), {}, why_unknown(model_type, config, type(model).__name__))
    flops = Count(flops_per_token(shape, TOKENS, "palm"), counted_flops(model))
    counts = {"parameters": Count(shape.parameters, model.num_parameters()), "FLOPs": flops}
    return Row(kind, model_type, model.num_parameters(), counts | {"pairs": counted_pairs(model_type, entries)})


def built(model_type: str, entries: Mapping[str, Any], attention: str = "eager") -> Any:
    """The model of transformers without its weights; each token is multiplied with its experts alone."""
    config = transformers.AutoConfig.for_model(model_type, **entries)
    config._attn_implementation = attention
    with suppress(AttributeError, ValueError):  # a type without experts
        config._experts_implementation = "batched_mm"
    with torch.device("meta"):
        return class_of(config)._from_config(config)


def class_of(config: Any) -> Any:
    """The class that transformers builds from a configuration: a language model if it has one."""
    auto = next(auto for auto in _AUTO if type(config) in auto._model_mapping)
    found = auto._model_mapping[type(config)]
    return found[0] if isinstance(found, tuple) else found


def counted_flops(model: Any) -> float:
    """FLOPs of a token in a forward and backward pass; rotary frequencies, a product without weights, are left out."""
    with FlopCounterMode(display=False) as counter:
        model(input_ids=_tokens()).logits.sum().backward()
    by_module = counter.get_flop_counts().items()
    rotary = sum(sum(by.values()) for name, by in by_module if "rotary" in name.rpartition(".")[2])
    return (counter.get_total_flops() - rotary) / TOKENS


def counted_pairs(model_type: str, entries: Mapping[str, Any]) -> Count:
    """Query-key pairs of a token in the mean over the layers, where windows are `WINDOW` wide."""
    narrow = _narrow(transformers.AutoConfig.for_model(model_type, **entries))
    model = built(model_type, {**entries, **narrow}, "counted")
    shape = ModelShape.from_config(model_type, model.config.to_dict(), type(model).__name__)
    assert shape is not None
    _PAIRS.clear()
    with torch.no_grad():
        model(input_ids=_tokens())
    return Count(causal_pairs_per_token(shape, TOKENS), sum(_PAIRS) / len(_PAIRS) if _PAIRS else None)


def _narrow(config: Any) -> dict[str, int]:
    known = config.to_dict()
    return {name: WINDOW for name in ("sliding_window", "local_attention") if known.get(name)}


def _tokens() -> torch.Tensor:
    return torch.zeros((1, TOKENS), dtype=torch.long, device="meta")


_PAIRS: list[float] = []


def _counted_mask(*args: Any, **named: Any) -> torch.Tensor:
    """The mask of eager attention without its values, with the pairs of a query that it lets through."""
    mask = eager_mask(*args, **{**named, "device": "cpu", "allow_is_bidirectional_skip": False})
    shown = mask.to("meta")
    shown.pairs = float((mask == 0).sum()) / mask.shape[-2]  # type: ignore[attr-defined]
    return shown


def _counted_attention(module: Any, query: Any, key: Any, value: Any, mask: Any, **_: Any) -> tuple[Any, None]:
    """Attention that computes nothing and keeps how many pairs it would compute."""
    _PAIRS.append(mask.pairs)
    batch, heads, tokens, _width = query.shape
    return query.new_empty((batch, tokens, heads, value.shape[-1])), None


ALL_MASK_ATTENTION_FUNCTIONS.register("counted", _counted_mask)
ALL_ATTENTION_FUNCTIONS.register("counted", _counted_attention)


def known_table(rows: list[Row]) -> str:
    """The types that are counted."""
    heads = ("kind", "type", "parameters", "error", "FLOPs of a token", "error", "pairs of a token", "error")
    return table(heads, ([row.kind, f"`{row.model_type}`", *_cells(row)] for row in rows if row.counts))


def _cells(row: Row) -> Iterator[str]:
    for name, count in row.counts.items():
        yield f"{count.ours:,.1f}" if name == "pairs" else f"{count.ours:,.0f}"
        yield "cannot be counted independently" if count.error is None else f"{100 * count.error:+.3f} %"


def unknown_table(rows: list[Row]) -> str:
    """The types that are not counted, with the reason."""
    lines = ([r.kind, f"`{r.model_type}`", f"{r.parameters:,}" if r.parameters else "-", r.reason] for r in rows)
    unknown = [line for line, row in zip(lines, rows, strict=True) if not row.counts]
    return table(("kind", "type", "parameters that transformers builds", "unknown"), unknown)


def main() -> None:
    """Print the report, or write it."""
    options = parser(__doc__)
    options.add_argument("--types", default="", help="types with commas between; all without it")
    chosen = options.parse_args()
    transformers.logging.set_verbosity_error()
    wanted = [found for found in architectures() if not chosen.types or found[1] in chosen.types.split(",")]
    rows = [row_of(*found) for found in wanted]
    parts = ("## Counted", known_table(rows), "## Unknown", unknown_table(rows))
    publish(page("Breadth of models", about(rows), *parts), chosen.write, "breadth")
    if chosen.write and not chosen.types:
        PAGE.write_text("\n\n".join((_PAGE_HEAD, textwrap.fill(about(rows), 120), *parts)) + "\n", encoding="utf-8")


def about(rows: Sequence[Row]) -> str:
    """How many are counted and how many are right, and what the figures rest on."""
    known = [row for row in rows if row.counts]
    return (
        f"Of {len(rows)} architectures {len(known)} are counted, {sum(row.is_right for row in known)} of them within "
        f"{100 * ALLOWED:.0f} % in every figure; {len(rows) - len(known)} are unknown, each with the reason. Sequences "
        f"have {TOKENS} tokens, and windows are {WINDOW} wide where pairs are counted. Weights, gradients and states "
        "of the optimizer are bytes for each parameter, so their error is that of the parameters. "
        f"transformers {transformers.__version__}, torch {torch.__version__}."
    )


if __name__ == "__main__":
    main()
