"""The waterfall from 100 % of the peak to MFU: each loss with its nanoseconds of the step.

The breakdown's matrix kernels are divided into the time their model FLOPs need at the declared peak and named losses;
every other cause of the breakdown is a loss as it stands. Named losses are taken in a fixed order, each at most what is
left of the matrix kernels, so the parts add up to the step whatever the estimates are. Kernels without counted FLOPs
are set apart before: their share of the peak is not known.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from diagnose.attribution.causes import below_achievable, below_peak, is_low_intensity, is_matrix, not_counted
from diagnose.diagnosis import CauseClass, LedgerEntry, WaterfallPart

MODEL_FLOPS, PADDING = "model-flops", "padding"


class MatrixTime(msgspec.Struct, frozen=True):
    """The work of the matrix kernels in all counted steps and ranks, in nanoseconds.

    Attributes:
        model_ns: model FLOPs of the tokens that are not padding, at the declared peak.
        padding_ns: model FLOPs of padding, at the declared peak.
        recompute_ns: FLOPs that ran beyond the model's, at the declared peak.
        precision_ns: extra time of all FLOPs that ran, in the precision they ran in, over the declared peak.
        ceiling_ns: their extra time at the fastest product measured on this device over its datasheet peak; None if no
            such measurement is known.
        uncounted_ns: by cause, the time of kernels whose FLOPs are not known, from which nothing is taken.
        weights: FLOPs by cause, by which the named losses are divided; if empty, they are taken from the largest cause.
    """

    model_ns: float
    padding_ns: float = 0.0
    recompute_ns: float = 0.0
    precision_ns: float = 0.0
    ceiling_ns: float | None = None
    weights: Mapping[str, float] = msgspec.field(default_factory=dict)
    uncounted_ns: Mapping[str, float] = msgspec.field(default_factory=dict)

    @property
    def named(self) -> list[tuple[str, float]]:
        """The parts by name in the order in which they are taken."""
        return [
            (MODEL_FLOPS, self.model_ns),
            (PADDING, self.padding_ns),
            ("recompute", self.recompute_ns),
            ("lower-precision", self.precision_ns),
            ("below-datasheet", self.ceiling_ns or 0.0),
        ]

    def scaled(self, factor: float) -> "MatrixTime":
        """The same work over `factor` times the ranks."""
        return replace(
            self,
            model_ns=factor * self.model_ns,
            padding_ns=factor * self.padding_ns,
            recompute_ns=factor * self.recompute_ns,
            precision_ns=factor * self.precision_ns,
            ceiling_ns=None if self.ceiling_ns is None else factor * self.ceiling_ns,
            uncounted_ns={cause: factor * ns for cause, ns in self.uncounted_ns.items()},
        )

    def rest_of(self, cause: str) -> str:
        """The part that is left of a cause of matrix kernels when the named parts are taken out of it."""
        if is_low_intensity(cause):
            return cause
        return below_peak(cause) if self.ceiling_ns is None else below_achievable(cause)


def waterfall_of(breakdown: Sequence[LedgerEntry], work: MatrixTime | None) -> tuple[WaterfallPart, ...]:
    """The breakdown with its matrix kernels divided; as it is when `work` is None. Parts without time are left out."""
    total = max(sum(entry.ns for entry in breakdown), 1)
    pool = [entry for entry in breakdown if is_matrix(entry.cause)]
    rest = [(entry.cause, entry.class_, entry.ns) for entry in breakdown if work is None or not is_matrix(entry.cause)]
    divided = _divided(pool, work) if work is not None else []
    return tuple(
        WaterfallPart(part=part, class_=class_, ns=ns, points=100 * ns / total)
        for part, class_, ns in [*divided, *rest]
        if ns
    )


Parts = list[tuple[str, CauseClass, int]]


def _divided(pool: Sequence[LedgerEntry], work: MatrixTime) -> Parts:
    apart = [min(round(work.uncounted_ns.get(entry.cause, 0.0)), entry.ns) for entry in pool]
    known = [entry.ns - ns for entry, ns in zip(pool, apart, strict=True)]
    left = sum(known)
    parts: Parts = []
    for name, wanted in work.named:
        ns = min(max(round(wanted), 0), left)
        parts.append((name, "compute", ns))
        left -= ns
    taken = sum(ns for _, _, ns in parts)
    remains = _taken_from(known, [work.weights.get(e.cause, 0.0) for e in pool], taken)
    parts += [(work.rest_of(entry.cause), entry.class_, ns) for entry, ns in zip(pool, remains, strict=True)]
    return parts + [(not_counted(e.cause), e.class_, ns) for e, ns in zip(pool, apart, strict=True) if ns]


def _taken_from(amounts: list[int], weights: list[float], taken: int) -> list[int]:
    """The amounts less `taken`: by weight as far as each has it, then from the largest; sums are exact."""
    of = sum(weights)
    shares = [taken * weight / of for weight in weights] if of else [0.0] * len(amounts)
    left = [amount - min(amount, int(share)) for amount, share in zip(amounts, shares, strict=True)]
    missing = taken - (sum(amounts) - sum(left))
    for i in sorted(range(len(left)), key=lambda i: -left[i]):
        more = min(left[i], missing)
        left[i], missing = left[i] - more, missing - more
    return left
