"""The ladder of Llama-3.2-1B on one GPU: every rung of ladder.csv trained for a few steps, beside what was recorded.

    python benchmarks/ladder.py [--capture] [--rows 15.1,15.6] [--memory-gib 63.4]
    python benchmarks/ladder.py --tiny      # two rungs of a two-layer model, on a CPU if need be

Rungs of the same configuration run once. Each runs in a process of its own; out of memory is an outcome. The model is
built from its configuration, tokens are random. Writes a dated report and its JSON to benchmarks/reports/ (--tiny: to a
temporary folder). Exit codes: 0 written, 2 wrong usage, 3 no GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ladder_report import markdown

from diagnose.formulas.model import ModelShape
from diagnose.formulas.model_flops import CONVENTIONS, flops_per_token
from diagnose.hardware import Device, resolve
from diagnose.trace.record import CaptureRecord

HERE = Path(__file__).parent
NO_GPU = 3
MODEL = {
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 8192,
    "vocab_size": 128256,
    "tie_word_embeddings": True,
}
TINY = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
TINY_MODEL = MODEL | TINY | {"intermediate_size": 128, "vocab_size": 512}
_CAPTURE = {"at_step": 8, "steps": 16}
_ROW_TIMEOUT_S = 900
_SETTINGS = ("micro_batch", "seq_len", "model_precision", "mixed_precision", "attention", "liger")


@dataclass(frozen=True)
class Rung:
    """One configuration with the rows of the table that ran it; `recorded` holds those rows."""

    settings: Mapping[str, Any]
    recorded: tuple[Mapping[str, str], ...]

    @property
    def name(self) -> str:
        """The names of its rows."""
        return ", ".join(f"{row['row']} ({row['source']})" for row in self.recorded)


def rungs(path: Path, model: str = "Llama-3.2-1B") -> list[Rung]:
    """The one-GPU rows of the model in the order of the file, rows of equal settings together."""
    found: dict[tuple[Any, ...], list[Mapping[str, str]]] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["model"] == model and row["gpus"] == "1":
                found.setdefault(tuple(row[name] for name in _SETTINGS), []).append(row)
    return [Rung(_typed(dict(zip(_SETTINGS, key, strict=True))), tuple(rows)) for key, rows in found.items()]


def _typed(row: Mapping[str, str]) -> dict[str, Any]:
    sizes = {name: int(row[name]) for name in ("micro_batch", "seq_len")}
    return {**row, **sizes, "liger": row["liger"] == "true"}


def flops_by_convention(model: Mapping[str, Any], tokens: int) -> dict[str, float]:
    """Model FLOPs of one token, forward and backward, in the four conventions of `diagnose.formulas.model_flops`."""
    shape = ModelShape.from_config("llama", model)
    if shape is None:
        raise ValueError("the configuration does not describe a model")
    return {convention: flops_per_token(shape, tokens, convention) for convention in CONVENTIONS}


def child(spec: Mapping[str, Any], folder: Path, launcher: Sequence[str] = ()) -> dict[str, Any]:
    """What a process of `ladder_row.py` wrote; outcome "failed" with its last line when it wrote nothing."""
    given, result = folder / "spec.json", folder / "result.json"
    result.unlink(missing_ok=True)
    given.write_text(json.dumps({**spec, "folder": str(folder / "trainer")}), encoding="utf-8")
    command = [*launcher, sys.executable, str(HERE / "ladder_row.py"), str(given), str(result)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ROW_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return {"outcome": "failed", "reason": f"no end after {_ROW_TIMEOUT_S} s"}
    if result.is_file():
        return dict(json.loads(result.read_text(encoding="utf-8")))
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}, no message"]
    return {"outcome": "failed", "reason": lines[-1]}


def run_rung(rung: Rung, options: argparse.Namespace, model: Mapping[str, Any], device: Device) -> dict[str, Any]:
    """The rung's result: outcome, tokens/s, MFU by convention, memory, and the diagnosis when it is captured."""
    spec = {"task": "row", "model": model, **rung.settings, "memory_gib": options.memory_gib}
    with tempfile.TemporaryDirectory() as folder:
        result = child(spec | {"steps": options.steps, "skip": options.skip}, Path(folder))
    result |= {"rung": rung.name, "settings": rung.settings, "recorded": rung.recorded}
    if result["outcome"] == "ok":
        result |= measured(result["step_s"], rung.settings, model, device)
        if options.capture:
            result["diagnosis"] = captured(spec)
    return result


def measured(
    step_s: Sequence[float], settings: Mapping[str, Any], model: Mapping[str, Any], device: Device
) -> dict[str, Any]:
    """Tokens/s over all counted steps, and MFU of the device's matrix peak; None where the peak is unknown."""
    tokens = settings["micro_batch"] * settings["seq_len"]
    per_s = tokens * len(step_s) / sum(step_s)
    peak = device.matrix_peak
    flops = flops_by_convention(model, settings["seq_len"])
    return {
        "tokens_per_s": per_s,
        "mfu": {name: each * per_s / peak[0] if peak else None for name, each in flops.items()},
    }


def captured(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The verdict and MFU of a run of its own under `diagnose run`."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "diagnosis.json"
        window = ["--at-step", str(_CAPTURE["at_step"]), "--out", f"{folder}/bundle", "--json", str(page)]
        launcher = [sys.executable, "-m", "diagnose", "run", *window, "--"]
        result = child({**spec, "steps": _CAPTURE["steps"], "skip": 1}, Path(folder), launcher)
        if not page.is_file():
            return {"verdict": None, "mfu": None, "reason": result.get("reason", "nothing was captured")}
        found = json.loads(page.read_text(encoding="utf-8"))
    verdict, mfu = found["verdict"], found["mfu"]
    return {
        "verdict": verdict["class"],
        "confidence": verdict["confidence"],
        "mfu": mfu["value"],
        "reason": mfu["reason"],
    }


def resolved(ceilings: Mapping[str, Any], options: argparse.Namespace) -> Device:
    """The device that the ceilings were measured on."""
    record = CaptureRecord({"device": ceilings["device"], "versions": ceilings["versions"]})
    return resolve({}, record, peak_tflops=options.peak_tflops)


def write(report: Mapping[str, Any], out: Path) -> Path:
    """Write the report and its JSON; the path of the report."""
    out.mkdir(parents=True, exist_ok=True)
    board = report["device"]["key"] or report["device"]["name"] or "unknown"
    stem = f"{report['date'].replace(':', '')}-ladder-{''.join(c if c.isalnum() else '-' for c in board.lower())}"
    (out / f"{stem}.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    page = out / f"{stem}.md"
    page.write_text(markdown(report), encoding="utf-8")
    return page


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="ladder.py", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", metavar="NAMES", help="only these rows of ladder.csv, separated by commas")
    parser.add_argument("--steps", type=int, default=12, help="optimizer steps of each row (default: 12)")
    parser.add_argument("--skip", type=int, default=4, help="of those, not timed at the start (default: 4)")
    parser.add_argument("--capture", action="store_true", help="run each row once more under `diagnose run`")
    parser.add_argument("--memory-gib", type=float, help="use at most this much of the device, as a smaller board has")
    parser.add_argument("--peak-tflops", type=float, help="dense bf16 peak, for MFU, when the device is unknown")
    parser.add_argument("--out", type=Path, help="folder of the report (default: benchmarks/reports)")
    parser.add_argument("--tiny", action="store_true", help="two rows of a two-layer model; a CPU will do")
    options = parser.parse_args(arguments)
    if not 1 <= options.skip < options.steps:
        parser.error("--skip must be at least 1 and less than --steps")
    return options


def chosen(options: argparse.Namespace) -> list[Rung]:
    """The rungs to run."""
    every = rungs(HERE / "ladder.csv")
    if options.rows:
        wanted = set(options.rows.split(","))
        every = [rung for rung in every if wanted & {row["row"] for row in rung.recorded}]
    if not options.tiny:
        return every
    return [
        Rung({**rung.settings, "micro_batch": 2, "seq_len": 32, "liger": False}, ()) for rung in (every[0], every[6])
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure the ceilings and the rungs, and write the report."""
    options = parsed(arguments)
    selected, model = chosen(options), TINY_MODEL if options.tiny else MODEL
    with tempfile.TemporaryDirectory() as folder:
        ceilings = child({"task": "ceilings", "tiny": options.tiny}, Path(folder))
    if ceilings.get("device") is None:
        why = ceilings.get("reason", "torch sees no GPU")
        print(f"no report: {why}; run on a machine with a GPU, or try the path with --tiny", file=sys.stderr)
        return NO_GPU
    device = resolved(ceilings, options)
    results = []
    for number, rung in enumerate(selected, 1):
        print(f"{number}/{len(selected)}  {rung.settings}", file=sys.stderr, flush=True)
        results.append(run_rung(rung, options, model, device))
    report = {
        "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M"),
        "command": " ".join(["python", "benchmarks/ladder.py", *arguments]),
        "tiny": options.tiny,
        "device": described(device),
        "ceilings": ceilings,
        "rows": results,
    }
    print(write(report, options.out or (Path(tempfile.mkdtemp()) if options.tiny else HERE / "reports")))
    return 0


def described(device: Device) -> dict[str, Any]:
    """The device's figures with their sources."""
    return {
        "name": device.name,
        "key": device.gpu.key if device.gpu else None,
        "matrix_peak_flops": device.matrix_peak[0] if device.matrix_peak else None,
        "matrix_peak_source": device.matrix_peak_source,
        "hbm_bytes_per_s": device.hbm_bytes_per_s,
        "hbm_source": device.hbm_bytes_per_s_source,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
