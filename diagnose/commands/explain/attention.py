"""The matrix of scores that unfused attention writes, by the sizes of its operators."""

import re
from collections.abc import Callable, Mapping
from math import prod

from diagnose.diagnosis import Diagnosis, RooflineEntry
from diagnose.facts import Scalar, Unit
from diagnose.report.views.breakdown import basis

_SCORES = re.compile(r"softmax\w* \[(\d+(?:x\d+){2,3})\]")
_BATCHED = re.compile(r"^a?bmm|^baddbmm|^matmul")
_HALF, _SINGLE = 2, 4  # bytes of a number


def _softmax(diagnosis: Diagnosis) -> RooflineEntry | None:
    """The softmax over scores that takes longest; None if no sizes were recorded."""
    rows = [row for row in diagnosis.operators if _SCORES.search(row.family)]
    return max(rows, key=lambda row: row.ns, default=None)


def _sizes(diagnosis: Diagnosis) -> list[int]:
    """The sizes of the scores of one layer; empty if they are not known."""
    row = _softmax(diagnosis)
    found = _SCORES.search(row.family) if row else None
    return [int(size) for size in found[1].split("x")] if found else []


def _spelled(diagnosis: Diagnosis) -> str | None:
    return " x ".join(f"{size:,}" for size in _sizes(diagnosis)) or None


def _scores(diagnosis: Diagnosis) -> int | None:
    return prod(_sizes(diagnosis)) if _sizes(diagnosis) else None


def _bytes(width: int) -> Callable[[Diagnosis], Scalar | None]:
    def find(diagnosis: Diagnosis) -> int | None:
        scores = _scores(diagnosis)
        return None if scores is None else scores * width

    return find


def _product_intensity(diagnosis: Diagnosis) -> float | None:
    rows = [row for row in diagnosis.operators if _BATCHED.match(row.family) and row.intensity is not None]
    return max(rows, key=lambda row: row.ns).intensity if rows else None


def _unfused_ns(diagnosis: Diagnosis) -> float | None:
    share = diagnosis.fact("eager_attention_share")
    return share * basis(diagnosis).step_ns if isinstance(share, float) and share > 0 else None


def _rate(diagnosis: Diagnosis) -> float | None:
    row = _softmax(diagnosis)
    return None if row is None or row.gbs is None else row.gbs * 1e9


def _traffic(diagnosis: Diagnosis) -> float | None:
    ns, rate = _unfused_ns(diagnosis), _rate(diagnosis)
    return None if ns is None or rate is None else ns * 1e-9 * rate


DERIVED: Mapping[str, tuple[Unit, Callable[[Diagnosis], Scalar | None]]] = {
    "score_sizes": ("text", _spelled),
    "scores": ("count", _scores),
    "scores_half_bytes": ("bytes", _bytes(_HALF)),
    "scores_single_bytes": ("bytes", _bytes(_SINGLE)),
    "unfused_attention_ns": ("ns", _unfused_ns),
    "score_rate_bytes_per_s": ("bytes_per_s", _rate),
    "score_traffic_bytes": ("bytes", _traffic),
    "score_product_flops_per_byte": ("flops_per_byte", _product_intensity),
}
