"""What the scripts of the kit share."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

TINY = os.environ.get("TINY") == "1"
BEGAN = time.monotonic()
LIMIT_S = float(os.environ.get("LIMIT_S", "3600"))
DIAGNOSE = (sys.executable, "-m", "diagnose")
LLAMA_1B = {
    "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": True,
}  # fmt: skip
SMALL = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512,
}  # fmt: skip


def left_s() -> float:
    """Seconds until this part has to be at its end."""
    return LIMIT_S - (time.monotonic() - BEGAN)


def tell(found: Any) -> None:
    """Write what was found so far; each call replaces the one before."""
    text = json.dumps(found, indent=1, default=str)
    if "RESULT" in os.environ:
        written(Path(os.environ["RESULT"]), text)
    else:
        print(text)


def written(path: Path, text: str) -> None:
    """A file that has its name only when it is complete."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


def tried(call: Callable[..., Any], *arguments: Any) -> Any:
    """What the call gives, or how it failed."""
    try:
        return call(*arguments)
    except (Exception, SystemExit) as error:
        return {"failed": f"{type(error).__name__}: {error}"[:400]}


def ran(
    words: Sequence[str], limit_s: float = 60.0, most: int = 6000, env: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Exit code, seconds and the end of the output of a command."""
    since, environment = time.monotonic(), {**os.environ, **(env or {})}
    try:
        done = subprocess.run(
            words, capture_output=True, timeout=limit_s, env=environment, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired as late:
        return {"code": None, "s": limit_s, "out": _text(late.stdout)[-most:], "err": _text(late.stderr)[-1500:]}
    except OSError as error:
        return {"code": None, "s": 0.0, "out": "", "err": str(error)}
    took = round(time.monotonic() - since, 2)
    return {"code": done.returncode, "s": took, "out": _text(done.stdout)[-most:], "err": _text(done.stderr)[-1500:]}


def _text(content: bytes | None) -> str:
    return (content or b"").decode("utf-8", "replace")


def board() -> str:
    """The card as `diagnose fit --gpu` takes it."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "H100-SXM5-80GB"


def diagnosis_told(path: Path) -> dict[str, Any]:
    """The short form of a diagnosis in JSON."""
    found = json.loads(path.read_text(encoding="utf-8"))
    verdict, steps, then, mfu = found["verdict"], found["steps"], found["next"], found.get("mfu") or {}
    unprofiled = sorted(steps.get("unprofiled_ns") or [])
    total = steps.get("device_time_ns") or steps.get("time_ns") or 0
    return {
        "class": verdict["class"],
        "confidence": verdict["confidence"],
        "because": verdict["because"],
        "next": then.get("rule"),
        "next_kind": then["kind"],
        "next_predicted": then.get("predicted_speedup"),
        "step_ms": total / max(steps.get("count") or 1, 1) / 1e6,
        "unprofiled_ms": unprofiled[len(unprofiled) // 2] / 1e6 if unprofiled else None,
        "distortion": steps.get("distortion"),
        "mfu": mfu.get("value"),
        "mfu_reason": mfu.get("reason"),
        "findings": [
            [each["rule"], each.get("predicted_speedup"), round(each.get("booked_share") or 0, 4)]
            for each in found["findings"]
        ],
        "plan": [
            [each["rule"], each.get("predicted_speedup"), each.get("cumulative_speedup")] for each in found["plan"]
        ],
        "waterfall": [[each["part"], round(each["points"], 2)] for each in found["waterfall"] or []],
        "unclassified": [each["name"][:90] for each in found.get("kernels") or [] if each["family"] in UNKNOWN][:8],
    }


UNKNOWN = ("other", "unknown")
