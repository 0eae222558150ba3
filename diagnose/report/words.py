"""Parts of a Diagnosis in the words people use: predictions, patches, evidence."""

import json
import shlex
from typing import Any

from diagnose.diagnosis import Evidence, Mfu, Patch
from diagnose.facts import spoken
from diagnose.report.page import plain

_CALLS = {
    "training_arguments": "TrainingArguments",
    "model_kwargs": "from_pretrained",
    "ddp": "DistributedDataParallel",
    "dataloader": "DataLoader",
}


def speedup(predicted: tuple[float, float] | None) -> str:
    """`(1.0, 1.66)` is a bound, "at most 1.66x"; `(1.55, 1.8)` is a range, "1.55-1.80x"."""
    if predicted is None:
        return ""
    low, high = (f"{factor:.2f}" for factor in predicted)
    if predicted[0] == 1.0:
        return f"at most {high}x"
    return f"{low}x" if low == high else f"{low}-{high}x"


def patch_lines(patch: Patch | None) -> list[str]:
    """The change as it would be typed, one line per way to type it."""
    if patch is None or not patch.set:
        return []
    if patch.target == "environment":
        return [plain(f"export {name}={shlex.quote(_flag_value(value, on='1'))}") for name, value in patch.set.items()]
    settings = ", ".join(f"{name}={_literal(value)}" for name, value in patch.set.items())
    call = _CALLS.get(patch.target)
    if call is None:
        return [plain(f"{patch.target}: {settings}")]
    lines = [plain(f"{call}(..., {settings})")]
    if patch.target == "training_arguments":
        flags = (f"--{name} {shlex.quote(_flag_value(value, on='True'))}" for name, value in patch.set.items())
        lines.append(plain(" ".join(flags)))
    return lines


def evidence_line(evidence: tuple[Evidence, ...]) -> str:
    """The facts with their values, each share with its denominator."""
    return "; ".join(
        plain(f"{item.fact} {spoken(item.value, item.unit)}" + (f" of {_without_of(item.of)}" if item.of else ""))
        for item in evidence
    )


def mfu_line(mfu: Mfu) -> str:
    """How MFU was computed, or why it is unknown and which option supplies what is missing."""
    if mfu.value is not None:
        peak = "" if mfu.peak_flops is None else f"{mfu.peak_flops / 1e12:,.1f} TFLOP/s"
        source = f" ({mfu.peak_source})" if mfu.peak_source else ""
        flops = "" if mfu.model_flops_per_step is None else f" {spoken(mfu.model_flops_per_step, 'flops')} per step"
        return plain(f"MFU = {mfu.numerator}{flops} / peak {peak}{source}")
    missing = [
        option
        for option, value in (("--flops-per-step", mfu.model_flops_per_step), ("--peak-tflops", mfu.peak_flops))
        if value is None and option not in mfu.reason
    ]
    hint = f"; pass {' and '.join(missing)}" if missing else ""
    return plain(f"MFU is unknown: {mfu.reason}{hint}")


def counted(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _without_of(denominator: str) -> str:
    return denominator.removeprefix("of ")


def _literal(value: Any) -> str:
    """A Python literal with double quotes, as configuration files are written."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(item) for item in value) + "]"
    return repr(value)


def _flag_value(value: Any, on: str) -> str:
    if isinstance(value, bool):
        return on if value else {"1": "0", "True": "False"}[on]
    return json.dumps(value) if isinstance(value, dict | list | tuple) else str(value)
