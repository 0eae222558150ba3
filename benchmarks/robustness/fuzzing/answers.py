"""Kinds of what `diagnose` itself wrote or is told about jobs: diagnoses, baselines, promises, tables of runs."""

import json
import random
from functools import cache
from typing import Any

from kept_promises import promise  # of tests/

from diagnose.analysis import analyze
from diagnose.commands.compare.baseline import kept, written
from diagnose.commands.compare.side import side_of
from diagnose.commands.ledger.lines import line_of

from .case import Case
from .seeds import ROOT
from .tree import mutated
from .written import at_times_damaged, csv_bytes, form, json_bytes, spoilt

_SAMPLES = ("cpu-healthy", "synthetic-memory-bound", "synthetic-tiny-kernels")
_PLANNED = {"model": "llama-3.1-8b", "gpu": "H100-SXM5-80GB", "gpus": "8", "micro_batch": "2", "seq_len": "4096"}
MODEL: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}  # fmt: skip


@cache
def _diagnosis(name: str) -> str:
    return analyze(ROOT / "sample_traces" / f"{name}.json.gz").to_json()


def diagnosis_of_sample() -> str:
    """A sound diagnosis as JSON."""
    return _diagnosis("synthetic-compute-bound")


@cache
def _baseline(name: str) -> bytes:
    path = ROOT / "sample_traces" / f"{name}.json.gz"
    return written(kept(side_of(analyze(path), str(path)), "one"))


def compared(seeded: random.Random) -> Case:
    """Two diagnoses, one of them mutated, held against each other or taken for runs of a ladder."""
    name = seeded.choice(_SAMPLES)
    other = name if seeded.random() < 0.6 else seeded.choice(_SAMPLES)
    files = {"a.json": spoilt(seeded, json.loads(_diagnosis(name))), "b.json": _diagnosis(other).encode()}
    command = ("compare",) if seeded.random() < 0.7 else ("scaling",)
    return Case("compared", (*command, "@a.json", "@b.json", *form(seeded)), files)


def fleet(seeded: random.Random) -> Case:
    """Two jobs of which one is mutated, and at times what the accounting says of them."""
    name, other = seeded.choice(_SAMPLES), seeded.choice(_SAMPLES)
    files = {"runs/me/a.json": spoilt(seeded, json.loads(_diagnosis(name))), "runs/b.json": _diagnosis(other).encode()}
    if seeded.random() < 0.7:
        return Case("fleet", ("fleet", "@runs", *(form(seeded) or ("--details",))), files)
    rows = mutated(seeded, [{"job": name, "gpu_hours": "8", "gpu_hour_price": "2.5", "label": "x"} for name in "ab"])
    return Case(
        "fleet",
        ("fleet", "@runs", "--accounting", "@jobs.csv", *form(seeded)),
        files | {"jobs.csv": _table(seeded, rows)},
    )


def baseline(seeded: random.Random) -> Case:
    """A baseline and the trace that is held against it."""
    name = seeded.choice(_SAMPLES)
    trace = (ROOT / "sample_traces" / f"{name}.json.gz").read_bytes()
    files = {"kept/one.json": spoilt(seeded, json.loads(_baseline(name))), "trace.json.gz": trace}
    return Case("baseline", ("baseline", "check", "one", "@trace.json.gz", "--dir", "@kept"), files)


def ledger(seeded: random.Random) -> Case:
    """The promises that are kept on a machine."""
    lines = [line_of(promise(number)).strip() for number in range(seeded.randint(1, 5))]
    at = seeded.randrange(len(lines))
    lines[at] = json_bytes(mutated(seeded, json.loads(lines[at])))
    text = at_times_damaged(seeded, b"\n".join(lines))
    return Case("ledger", ("ledger", *form(seeded)), {"data/promises.jsonl": text})


def planned(seeded: random.Random) -> Case:
    """A model that is only planned, a table of planned runs, or one of measured runs at several sizes."""
    pick = seeded.random()
    if pick < 0.15:
        command = ("fit", "--model", "llama-3.1-8b", "--gpu", "H100", "--gpus", "8", "--calibrate", "@a.json", "--json")
        return Case("planned", command, {"a.json": spoilt(seeded, json.loads(_diagnosis(seeded.choice(_SAMPLES))))})
    if pick < 0.45:
        command = ("fit", "--model", "@config.json", "--gpu", "H100", "--gpus", "8", "--json")
        return Case("planned", command, {"config.json": spoilt(seeded, MODEL)})
    if pick < 0.7:
        rows = mutated(seeded, [_PLANNED | {"gpus": str(2**each)} for each in range(4)])
        command = ("fit", "--table", "@runs.csv", "--out", "@out/predicted.csv")
        return Case("planned", command, {"runs.csv": _table(seeded, rows)})
    rows = mutated(seeded, [{"gpus": 2**each, "step_time_ms": 100 + 5 * each, "global_batch": 64} for each in range(5)])
    return Case("planned", ("scaling", "@runs.csv", "--json"), {"runs.csv": _table(seeded, rows)})


def _table(seeded: random.Random, rows: Any) -> bytes:
    kept_rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return at_times_damaged(seeded, csv_bytes(kept_rows))
