"""MFU with numerator and denominator, and what the matrix kernels had to do, for the whole job."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from diagnose.attribution.causes import is_matrix, low_intensity
from diagnose.diagnosis import Bound, Convention, Mfu, RooflineEntry
from diagnose.facts import Unknown, Value
from diagnose.formulas.mfu_conventions import MFU_AS
from diagnose.hardware import Device
from diagnose.judge.waterfall import MatrixTime
from diagnose.metrics import Measured
from diagnose.metrics.model.flops import NUMERATORS, ONCE, counted_flops, model_flops, why_uncounted
from diagnose.metrics.model.mfu import declared_flops, mfu_share, own_peak
from diagnose.metrics.model.tokens import tokens_of
from diagnose.metrics.model.uncounted import uncounted
from diagnose.metrics.nsight import in_terms_of_recorder
from diagnose.metrics.recorded_shapes import where_recorded
from diagnose.metrics.run.device import peak_flops
from diagnose.roofline import Roofline, RooflineRow

_AGREE = 0.05
_FULL_RECOMPUTE = (1.15, 1.45)


def mfu_of(ranks: Sequence[Measured], work: MatrixTime | None) -> Mfu:
    """MFU of the job: numerator and denominator are those of the first rank, values are over all ranks' time.

    Args:
        ranks: the job's.
        work: their `matrix_time_of`.
    """
    first = ranks[0]
    declared, peak = declared_flops(first), peak_flops(first)
    value = where_recorded(in_terms_of_recorder(mfu_share(first), first.timeline.trace), first)
    total_ns = max(sum(m.accounted_ns for m in ranks), 1)
    mfu = None if work is None else (work.model_ns + work.padding_ns) / total_ns
    scale = _scale(first, mfu)
    own_precision, own_flops = own_peak(first)
    tokens = tokens_of(first)
    return Mfu(
        value=mfu,
        reason=f"{value.because}; {value.capture_next}" if isinstance(value, Unknown) else "",
        numerator=_numerator(first),
        model_flops_per_step=None if isinstance(declared, Unknown) else declared[1],
        peak_flops=None if isinstance(peak, Unknown) else peak[0],
        peak_source="unknown" if isinstance(peak, Unknown) else peak[1],
        conventions=_conventions(first, scale),
        executed_value=_executed(first, mfu, scale),
        goodput_value=None if work is None or _padding(first) is None else work.model_ns / total_ns,
        own_precision=own_precision,
        own_peak_flops=own_flops,
        own_value=_against(mfu, peak, own_flops),
        reached_flops=first.device.measured_flops,
        reached_value=_against(mfu, peak, first.device.measured_flops),
        tokens_per_step=None if isinstance(tokens, Unknown) else tokens.per_step,
        tokens_per_s=None if isinstance(tokens, Unknown) else tokens.per_step * _steps(ranks) / total_ns * 1e9,
        check=_check(first),
        missing="" if mfu is None else _missing(first),
        unused_option=_unused_option(first),
        **_listed_peak(first.device),
        or_pass=_or_pass(value, declared, peak),
    )


def _executed(m: Measured, mfu: float | None, scale: float | None) -> float | None:
    """MFU by the operators that ran. If MFU counts just these, it is that very number: a product differs in a digit."""
    declared, counted = declared_flops(m), counted_flops(m)
    same = not isinstance(declared, Unknown) and counted == declared[1]
    return mfu if same else _scaled(counted, scale)


def _numerator(m: Measured) -> str:
    """The name of the numerator; "" if there is none."""
    declared, counted = declared_flops(m), counted_flops(m)
    if isinstance(declared, Unknown):
        return ""
    less = declared[0] == "operators" and not isinstance(counted, Unknown) and declared[1] < counted
    return NUMERATORS[declared[0]] + (ONCE if less else "")


def roofline_of_job(ranks: Sequence[Measured]) -> tuple[RooflineEntry, ...]:
    """The roofline of the first rank, per step: ranks of one job run the same kernels."""
    return tuple(_entry(row, ranks[0]) for row in ranks[0].roofline.rows)


def operators_of_job(ranks: Sequence[Measured]) -> tuple[RooflineEntry, ...]:
    """The operators of the first rank whose kernels take longest, per step."""
    return tuple(_entry(row, ranks[0]) for row in ranks[0].roofline.operators)


def _entry(row: RooflineRow, m: Measured) -> RooflineEntry:
    steps = max(m.timeline.steps.count, 1)
    return RooflineEntry(
        family=row.family,
        direction=row.direction,
        precision=row.precision,
        ns=row.ns // steps,
        kernels=row.kernels / steps,
        flops=None if row.flops is None else row.flops / steps,
        bytes=None if row.bytes is None else row.bytes / steps,
        intensity=row.intensity,
        tflops=row.tflops,
        gbs=row.gbs,
        bound=row.bound if row.bound in get_args(Bound) else "unknown",  # type: ignore[arg-type]
        above_roof_ns=None if row.above_roof_ns is None else row.above_roof_ns // steps,
        note=row.note,
    )


def matrix_time_of(ranks: Sequence[Measured]) -> MatrixTime | None:
    """The named parts of all ranks' matrix kernels; None when the MFU of a rank is unknown."""
    each = [_matrix_time(m) for m in ranks]
    known = [time for time in each if time is not None]
    if len(known) < len(each):
        return None
    ceilings = [time.ceiling_ns for time in known if time.ceiling_ns is not None]
    return MatrixTime(
        model_ns=sum(t.model_ns for t in known),
        padding_ns=sum(t.padding_ns for t in known),
        recompute_ns=sum(t.recompute_ns for t in known),
        precision_ns=sum(t.precision_ns for t in known),
        ceiling_ns=sum(ceilings) if len(ceilings) == len(known) else None,
        weights=_summed(each for time in known for each in time.weights.items()),
        uncounted_ns=_summed(each for time in known for each in time.uncounted_ns.items()),
    )


def _summed(amounts: Iterable[tuple[str, float]]) -> Mapping[str, float]:
    """The amounts of each cause, added up."""
    total: dict[str, float] = {}
    for cause, amount in amounts:
        total[cause] = total.get(cause, 0.0) + amount
    return total


def _matrix_time(m: Measured) -> MatrixTime | None:
    declared, peak = declared_flops(m), peak_flops(m)
    if isinstance(mfu_share(m), Unknown) or isinstance(declared, Unknown) or isinstance(peak, Unknown):
        return None
    per_flop_ns = 1e9 / peak[0]
    model = declared[1] * m.timeline.steps.count
    counted = counted_flops(m)
    executed = model if isinstance(counted, Unknown) else counted * m.timeline.steps.count
    padding = _padding(m) or 0.0
    roofline = m.roofline
    return MatrixTime(
        model_ns=model * (1 - padding) * per_flop_ns,
        padding_ns=model * padding * per_flop_ns,
        recompute_ns=max(executed - model, 0.0) * per_flop_ns,
        precision_ns=_precision_ns(m, roofline, peak[0]),
        ceiling_ns=_ceiling_ns(m, roofline, peak[0]),
        weights=_weights(roofline, declared[0]),
        uncounted_ns=_summed((row.cause, float(row.ns)) for row in uncounted(m)),
    )


def _precision_ns(m: Measured, roofline: Roofline, declared: float) -> float:
    peaks = [(work.flops, m.device.peak(work.precision)) for work in roofline.matrix]
    return sum(flops * (1 / peak - 1 / declared) for flops, peak in peaks if peak and peak < declared) * 1e9


def _ceiling_ns(m: Measured, roofline: Roofline, declared: float) -> float | None:
    """The best measured product is of half precision; other precisions are taken to fall short of their peak alike."""
    best = m.device.achievable_matrix_flops
    if best is None or not best < declared:
        return None
    works = [(work.flops, m.device.peak(work.precision) or declared) for work in roofline.matrix]
    return sum(flops * (declared / best - 1) / peak for flops, peak in works) * 1e9


def _weights(roofline: Roofline, numerator: str) -> Mapping[str, float]:
    """FLOPs by cause; those of kernels that are not known are part of a numerator that counts no operators.

    They are taken to run at the mean rate of the known ones.
    """
    rows = [row for row in roofline.rows if is_matrix(row.family)]
    rate = sum(row.flops or 0.0 for row in rows) / max(sum(row.sized_ns for row in rows), 1)
    more = 0.0 if numerator == "operators" else rate
    causes = [low_intensity(row.family) if row.class_ == "memory" else row.family for row in rows]
    flops = [(row.flops or 0.0) + more * (row.ns - row.sized_ns) for row in rows]
    return _summed(zip(causes, flops, strict=True))


def _padding(m: Measured) -> float | None:
    return m.record.number("batch.padding_share")


def _steps(ranks: Sequence[Measured]) -> int:
    return sum(m.timeline.steps.count for m in ranks)


def _scale(m: Measured, mfu: float | None) -> float | None:
    """MFU for each FLOP of a step."""
    declared = declared_flops(m)
    return None if mfu is None or isinstance(declared, Unknown) else mfu / declared[1]


def _scaled(flops: float | Unknown, scale: float | None) -> float | None:
    return None if isinstance(flops, Unknown) or scale is None else flops * scale


def _conventions(m: Measured, scale: float | None) -> tuple[Convention, ...]:
    found = model_flops(m)
    if isinstance(found, Unknown):
        return ()
    return tuple(Convention(name=n, model_flops_per_step=f, value=_scaled(f, scale)) for n, f in found.items())


def _against(mfu: float | None, peak: tuple[float, str] | Unknown, own_peak: float | None) -> float | None:
    if mfu is None or isinstance(peak, Unknown) or own_peak is None:
        return None
    return mfu * peak[0] / own_peak


def _listed_peak(device: Device) -> dict[str, Any]:
    """The row of the GPU table that the peak comes from; empty if it is stated or unknown."""
    precision = device.matrix_precision
    if device.gpu is None or not device.is_listed(precision):
        return {}
    return {
        "peak_device": device.gpu.key,
        "peak_precision": precision,
        "peak_is_verified": device.gpu.confidence != "low",
    }


def _or_pass(value: Value, *lacking: object) -> tuple[str, ...]:
    """The options for what MFU lacks, numerator and peak, that its own reason does not ask for."""
    if not isinstance(value, Unknown):
        return ()
    options = zip(("--flops-per-step", "--peak-tflops"), lacking, strict=True)
    missing = [option for option, part in options if isinstance(part, Unknown)]
    return tuple(option for option in missing if value.capture is None or not value.capture.asks_for(option))


def _unused_option(m: Measured) -> str:
    if m.settings.params and isinstance(tokens_of(m), Unknown):
        return "--params is not used: the tokens of a step are not known, pass --tokens-per-step too"
    named, declared = m.settings.mfu_as, declared_flops(m)
    if named is None or isinstance(declared, Unknown) or declared[0] == MFU_AS[named].flops:
        return ""
    unknown = why_uncounted(m) or "the sizes of the model or its tokens are not known"
    return f"--mfu-as {named} is not used: {'the FLOPs are stated' if declared[0] == 'given' else unknown}"


def _missing(m: Measured) -> str:
    """The work that ran but is missing from the numerator."""
    return " and ".join(row.spoken for row in uncounted(m))


def _check(m: Measured) -> str:
    """The declared numerator beside the operators that ran, or why these alone count; empty if there is neither."""
    declared, counted = declared_flops(m), counted_flops(m)
    if _unused_option(m) or isinstance(declared, Unknown) or isinstance(counted, Unknown):
        return ""
    if declared[0] == "operators":
        return why_uncounted(m)
    ratio = counted / declared[1]
    if abs(ratio - 1) <= _AGREE:
        return f"the operators that ran count {ratio:.2f}x of it"
    return f"the operators that ran count {ratio:.2f}x of it: {_why_apart(m, ratio)}"


def _why_apart(m: Measured, ratio: float) -> str:
    if m.record.flag("model.gradient_checkpointing") and _FULL_RECOMPUTE[0] < ratio < _FULL_RECOMPUTE[1]:
        return "gradient checkpointing computes the forward pass again"
    if ratio < 1 and m.flops is not None and m.flops.covered_share < 1:
        return f"{100 * (1 - m.flops.covered_share):.0f} % of the matrix-kernel time is under no operator with shapes"
    if ratio < 1:
        return "fewer operators carry shapes, weights are frozen, or the tokens of a step are fewer"
    return "work outside the model, recomputation, or more tokens in a step than stated"
