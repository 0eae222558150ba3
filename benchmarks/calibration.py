"""Predictions against the ladder: each rung foretold from the one before, beside what was measured.

    python benchmarks/calibration.py          # prints the table in Markdown
    python benchmarks/calibration.py --write  # writes it to benchmarks/reports/, dated

A "formula" predicts from bytes and FLOPs (`diagnose.formulas`). A "rule" predicts as in a report: a trace with the
step of the earlier rung, its parts modelled from bytes and FLOPs and stretched to the measured step (ladder_trace.py),
is replayed with the remedies of the named rules. Needs no GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))

from ladder_trace import BYTES_PER_S, MS, RECOMPUTED, measured_s, parts_ms, trace_of  # noqa: E402
from worked_examples import predict, traffic  # noqa: E402

from diagnose.attribution.attribution import attribute  # noqa: E402
from diagnose.formulas.model_flops import attention_flops, linear_flops_per_token  # noqa: E402
from diagnose.formulas.named_models import NAMED_MODELS  # noqa: E402
from diagnose.metrics import Measured, measure, units  # noqa: E402
from diagnose.metrics.settings import Settings  # noqa: E402
from diagnose.predict.whatif import Predictor  # noqa: E402
from diagnose.ranks import JobView  # noqa: E402
from diagnose.rule import Rule, load_rules  # noqa: E402
from diagnose.rule.remedy import Remedy  # noqa: E402
from diagnose.timeline import timeline_of  # noqa: E402
from diagnose.trace import read  # noqa: E402

SHAPE = NAMED_MODELS["Llama-3.2-1B"]
TF32_FLOPS, BF16_FLOPS = 330e12, 700e12  # what matrix products reach on the ladder's GPU before and under autocast
SLOW_ATTENTION = 0.6 * 989.4e12  # fused attention at 30 % of the peak, over half the scores
LIGER = ("unfused-loss", "unfused-norm", "unfused-glu")
Range = tuple[float, float]


@dataclass(frozen=True)
class Pair:
    """One change of the ladder: the factor on tokens per second, predicted and measured."""

    change: str
    rows: str
    by: str
    predicted: Range
    measured: float

    @property
    def error(self) -> float:
        """How far the measured factor is outside the predicted range, as a share of its nearer end; 0 inside."""
        low, high = self.predicted
        return low / self.measured - 1 if self.measured < low else min(high / self.measured - 1, 0.0)

    @property
    def saving_share(self) -> Range:
        """What the prediction saves of each step's time, over what was saved."""
        low, high = ((1 - 1 / gain) / (1 - 1 / self.measured) for gain in self.predicted)
        return low, high


def ladder(path: Path = HERE / "ladder.csv") -> dict[str, dict[str, Any]]:
    """The rows of chapter 15 on one GPU, by name."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["source"] == "chapter 15" and row["gpus"] == "1"]
    return {row["row"]: {**row, "micro_batch": int(row["micro_batch"]), "seq_len": int(row["seq_len"])} for row in rows}


def pairs() -> list[Pair]:
    """Every change of the ladder."""
    rows = ladder()
    found = [_amp(rows), _weights(rows)]
    for one, other in (("15.4", "15.5"), ("15.6", "15.7"), ("15.8", "15.9")):
        found += _batch(rows, one, other)
    found += [_attention_bytes(rows), _ruled(rows, "15.5", "15.6", "fused attention", ["unfused-attention"])]
    found += [_attention_as_measured(rows)]
    found += [_logit_bytes(rows), _ruled(rows, "15.7", "15.8", "Liger kernels", LIGER)]
    return sorted(found, key=lambda pair: [float(name) for name in pair.rows.split(" to ")])


def _measured(rows: Mapping[str, Any], one: str, other: str) -> float:
    """Tokens per second of the other row over those of the one."""
    return float(rows[other]["tokens_per_s_per_gpu"]) / float(rows[one]["tokens_per_s_per_gpu"])


def _pair(rows: Mapping[str, Any], one: str, other: str, change: str, by: str, gain: float) -> Pair:
    return Pair(change, f"{one} to {other}", by, (gain, gain), _measured(rows, one, other))


def _amp(rows: Mapping[str, Any]) -> Pair:
    row, batch = rows["15.1"], rows["15.3"]["micro_batch"]
    sample_s = measured_s(row) / row["micro_batch"]
    cast_s = predict.bytes_s(traffic.amp_cast_bytes(SHAPE.parameters), BYTES_PER_S)
    flops = linear_flops_per_token(SHAPE) * row["seq_len"]
    gain = sample_s / predict.amp_sample_s(sample_s, flops, TF32_FLOPS, BF16_FLOPS, cast_s, batch)
    return _pair(rows, "15.1", "15.3", "bf16 autocast", "formula: FLOPs, and bytes of casts", gain)


def _weights(rows: Mapping[str, Any]) -> Pair:
    saving = predict.bf16_weights_saving_s(SHAPE.parameters, BYTES_PER_S)
    return _saved(rows, "15.3", "15.4", "bf16 weights", "formula: bytes, at least", saving)


def _attention_bytes(rows: Mapping[str, Any]) -> Pair:
    row = rows["15.5"]
    moved = traffic.eager_attention_bytes(row["micro_batch"], SHAPE.heads, row["seq_len"], SHAPE.layers)
    saving = predict.bytes_s(moved, BYTES_PER_S)
    return _saved(rows, "15.5", "15.6", "fused attention", "formula: bytes of scores, at least", saving)


def _attention_as_measured(rows: Mapping[str, Any]) -> Pair:
    """The step with the chain's time as the two rows state it: what was saved, and the fused kernel's own."""
    row, found = rows["15.5"], parts_ms(rows["15.5"], SHAPE)
    saved = MS * (measured_s(row) - measured_s(rows["15.6"]))
    chain = saved + MS * attention_flops(SHAPE, row["seq_len"] ** 2) * row["micro_batch"] * RECOMPUTED / SLOW_ATTENTION
    rest = (MS * measured_s(row) - chain) / sum(ms for part, ms in found.items() if not part.startswith("score"))
    parts = {part: ms * rest for part, ms in found.items()} | {"scores": chain, "score products": 0.0}
    predicted = _predictor(row, [_rules()["unfused-attention"]], parts).predict(_rules()["unfused-attention"])
    by = f"rule: unfused-attention, its kernels at {chain:.0f} ms"
    return Pair("fused attention", "15.5 to 15.6", by, predicted or (0, 0), _measured(rows, "15.5", "15.6"))


def _logit_bytes(rows: Mapping[str, Any]) -> Pair:
    row = rows["15.7"]
    moved = traffic.logit_chain_bytes(row["micro_batch"], row["seq_len"], SHAPE.vocab)
    saving = predict.bytes_s(moved, BYTES_PER_S)
    return _saved(rows, "15.7", "15.8", "Liger kernels", "formula: bytes of logits, at least", saving)


def _saved(rows: Mapping[str, Any], one: str, other: str, change: str, by: str, saving_s: float) -> Pair:
    now = measured_s(rows[one])
    return _pair(rows, one, other, change, by, now / (now - saving_s))


def _batch(rows: Mapping[str, Any], one: str, other: str) -> list[Pair]:
    """By the line over the batch size and, without Liger's chunked loss, by the replay."""
    row, batch, tokens = rows[one], rows[other]["micro_batch"], rows[one]["seq_len"]
    fixed = [
        predict.optimizer_s(SHAPE.parameters, BYTES_PER_S) + _chunks_s(row, size)
        for size in (row["micro_batch"], batch)
    ]
    rate = predict.rate_at_batch(fixed[0], measured_s(row), row["micro_batch"], fixed[1], batch, tokens)
    change = f"batch {row['micro_batch']} to {batch}"
    line = _pair(rows, one, other, change, "formula: line over the batch", rate / float(row["tokens_per_s_per_gpu"]))
    if row["liger"] == "true":
        return [line]
    factor = batch / row["micro_batch"]
    larger = Remedy(batch=(factor, factor), assumes="kernels outside the optimizer take time in proportion")
    return [line, _ruled(rows, one, other, change, ["low-memory-use"], larger)]


def _chunks_s(row: Mapping[str, Any], batch: int) -> float:
    if row["liger"] != "true":
        return 0.0
    return predict.loss_accumulation_s(batch, row["seq_len"], SHAPE.vocab, SHAPE.hidden, BYTES_PER_S)


def _ruled(
    rows: Mapping[str, Any], one: str, other: str, change: str, names: Sequence[str], remedy: Remedy | None = None
) -> Pair:
    """What the rules predict of the change that they ask for, `remedy` instead of theirs where it is given."""
    rules = [_rules()[name] for name in names]
    fired = [rule if remedy is None else replace(rule, remedy=remedy) for rule in rules]
    found = _predictor(rows[one], fired).predict(fired[0])
    if found is None:
        raise ValueError(f"{names[0]} predicts nothing of row {one}")
    by = "replay: tokens" if remedy else f"rule: {', '.join(names)}"
    return Pair(change, f"{one} to {other}", by, found, _measured(rows, one, other))


def _rules() -> dict[str, Rule]:
    return {rule.id: rule for rule in load_rules((), units())}


def _predictor(row: Mapping[str, Any], fired: Sequence[Rule], parts: Mapping[str, float] | None = None) -> Predictor:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(trace_of(row, SHAPE, parts or parts_ms(row, SHAPE)).json()), encoding="utf-8")
        line = timeline_of(read(path), 0)
    measured = Measured(line, attribute(line), JobView(), Settings())
    return Predictor(measured, measure(measured), fired)


def table(found: Sequence[Pair]) -> str:
    """The pairs as a table in Markdown."""
    head = "| rows | change | predicted by | predicted | measured | outside the range | of the saving |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for pair in found:
        low, high = pair.predicted
        share = pair.saving_share
        cells = [pair.rows, pair.change, pair.by, _span(low, high, "{:.3f}", "x"), f"{pair.measured:.3f}x",
                 f"{pair.error:+.1%}" if pair.error else "inside", _span(*share, "{:.0%}", "")]  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _span(low: float, high: float, form: str, unit: str) -> str:
    each = dict.fromkeys(form.format(value) for value in (low, high))
    return " to ".join(each) + unit


def report(found: Sequence[Pair]) -> str:
    """The table as a page."""
    return f"""# Predictions against the ladder of Llama-3.2-1B

- date: {datetime.now(UTC):%Y-%m-%d} UTC
- command: `python benchmarks/calibration.py --write`
- measured: the rows of chapter 15 in `benchmarks/ladder.csv`, on one H100 with {BYTES_PER_S / 1e12} TB/s

{table(found)}

Factors are on tokens per second. "Outside the range" is how far the prediction misses the measured factor, negative
where it promises too little; "of the saving" is the predicted share of the time per token that was saved.
"""


def main() -> None:
    """Print the table, or write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write benchmarks/reports/calibration-DATE.md")
    found = pairs()
    if not parser.parse_args().write:
        print(table(found))
        return
    path = HERE / "reports" / f"calibration-{datetime.now(UTC):%Y-%m-%d}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(report(found), encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main()
