"""Numbers that texts name: the facts of a run, what follows from them, and thresholds, each asked of its owner."""

from collections.abc import Callable, Mapping
from functools import cache

from diagnose.attribution.causes import CAUSES
from diagnose.attribution.leading import NAMES_THE_CLASS, NEAR
from diagnose.commands.explain import attention, hardware
from diagnose.diagnosis import FORMULA, IRON_LAW, Diagnosis, FactReport
from diagnose.facts import Fact, Facts, Scalar, Unit, Unknown, duration
from diagnose.formulas.collectives import wire_bytes
from diagnose.formulas.mfu_words import ABOVE, MFU_WORDS
from diagnose.judge import verdict
from diagnose.metrics import units
from diagnose.report.views.breakdown import basis
from diagnose.report.views.speed_words import eta, mfu_words
from diagnose.report.views.why import class_ns

Derived = Callable[[Diagnosis], Scalar | None]
_CLASSES = tuple(IRON_LAW)
_PROFILER = "profiler_overhead_factor"


@cache
def constants() -> dict[str, Fact]:
    """Numbers that hold without a run: thresholds, formulas, and the ridge of well-known GPUs."""
    shares = {
        "names_the_class_share": NAMES_THE_CLASS,
        "near_share": NEAR,
        "much_unobserved_share": verdict.MUCH_UNOBSERVED,
        "too_many_lost_share": verdict.TOO_MANY_LOST,
        "many_lost_share": verdict.MANY_LOST,
        "mostly_sized_share": verdict.MOSTLY_SIZED,
    }
    known = {name: Fact(name, f"{100 * value:.3g} %", "text") for name, value in shares.items()}
    known |= {"mfu_yardstick": Fact("mfu_yardstick", _yardstick(), "text")}
    return known | {"iron_law": Fact("iron_law", FORMULA, "text")} | hardware.ridges_of_table()


def numbers_of(diagnosis: Diagnosis) -> Facts:
    """The facts of a run and what follows from them, beside the constants."""
    recorded = {report.name: _fact(report) for report in diagnosis.facts}
    derived = {name: (unit, find(diagnosis)) for name, (unit, find) in DERIVED.items()}
    unknown = Unknown("the run does not show it", None)
    found = {name: Fact(name, unknown if value is None else value, unit) for name, (unit, value) in derived.items()}
    return constants() | recorded | found


def _yardstick() -> str:
    """The words for MFU of a large transformer, from the lowest value up."""
    return "; ".join([*(f"below {100 * bound:.3g} %: {word}" for bound, word in MFU_WORDS), f"above: {ABOVE}"])


@cache
def known_units() -> Mapping[str, str]:
    """The unit of every name that a text may use."""
    return units() | {name: fact.unit for name, fact in constants().items()} | {n: u for n, (u, _) in DERIVED.items()}


def _fact(report: FactReport) -> Fact:
    value = Unknown(report.because, None) if report.value is None else report.value
    return Fact(report.name, value, report.unit, report.of)


def number_of(diagnosis: Diagnosis, name: str) -> float | None:
    """The value of a fact that is a number; None if it is unknown."""
    value = diagnosis.fact(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def share_of(diagnosis: Diagnosis, cause: str) -> float:
    """The share of the step that a cause takes."""
    return sum(entry.share for entry in diagnosis.ledger if entry.cause == cause)


def _step_ns(diagnosis: Diagnosis) -> float:
    return basis(diagnosis).step_ns


def _class_share(class_: str) -> Callable[[Diagnosis], float]:
    return lambda diagnosis: sum(entry.share for entry in diagnosis.ledger if entry.class_ == class_)


def _class_ns(class_: str) -> Derived:
    return lambda diagnosis: _class_share(class_)(diagnosis) * _step_ns(diagnosis)


def _cause_ns(cause: str) -> Derived:
    return lambda diagnosis: share_of(diagnosis, cause) * _step_ns(diagnosis)


def _iron_sum(diagnosis: Diagnosis) -> str:
    """The step as the sum of its classes, largest first, each with its term."""
    shares = {class_: _class_share(class_)(diagnosis) for class_ in _CLASSES}
    parts = sorted(((share, class_) for class_, share in shares.items() if share >= 0.005), reverse=True)
    return f"{duration(_step_ns(diagnosis))} = " + " + ".join(
        f"{duration(share * _step_ns(diagnosis))} {_term(class_, diagnosis)}" for share, class_ in parts
    )


def _term(class_: str, diagnosis: Diagnosis) -> str:
    law = IRON_LAW[class_]  # type: ignore[index]
    place = law.place(diagnosis.cpu_only)
    return f"{class_} ({': '.join(filter(None, (law.term or 'no term', place)))})"


def _eta(diagnosis: Diagnosis) -> float | None:
    """The part of that peak that the arithmetic reaches while it runs."""
    return eta(diagnosis, class_ns(diagnosis)["compute"], basis(diagnosis).total_ns)


def _mfu_unknown(diagnosis: Diagnosis) -> str | None:
    return "a job without a GPU has none" if diagnosis.cpu_only else diagnosis.mfu.reason or None


def _left_without(class_or_cause: Derived) -> Derived:
    return lambda diagnosis: _step_ns(diagnosis) - float(class_or_cause(diagnosis) or 0)


def _best_without_data(diagnosis: Diagnosis) -> float | None:
    left = _step_ns(diagnosis) - float(_cause_ns("data-wait")(diagnosis) or 0)
    return _step_ns(diagnosis) / left if left > 0 else None


def _kernel_work_ns(diagnosis: Diagnosis) -> float | None:
    count, mean = number_of(diagnosis, "kernels_per_step"), number_of(diagnosis, "mean_kernel_ns")
    return None if count is None or mean is None else count * mean


def _step_per_kernel_ns(diagnosis: Diagnosis) -> float | None:
    count = number_of(diagnosis, "kernels_per_step")
    return _step_ns(diagnosis) / count if count else None


def _work_factor(diagnosis: Diagnosis) -> float | None:
    work = _kernel_work_ns(diagnosis)
    return _step_ns(diagnosis) / work if work else None


def _collectives_ns(diagnosis: Diagnosis) -> float | None:
    """Time of the collectives of a step, hidden and exposed."""
    hidden = number_of(diagnosis, "overlapped_communication_share")
    exposed = number_of(diagnosis, "exposed_communication_share")
    return None if hidden is None or exposed is None or hidden >= 1 else exposed * _step_ns(diagnosis) / (1 - hidden)


def _sent_rate(diagnosis: Diagnosis) -> float | None:
    sent, ns = _sent_bytes(diagnosis), _collectives_ns(diagnosis)
    return sent / ns * 1e9 if sent and ns else None


def _sent_bytes(diagnosis: Diagnosis) -> float | None:
    """Bytes that a rank sends in a step, as if each collective were an all-reduce."""
    count, mean = number_of(diagnosis, "collectives_per_step"), number_of(diagnosis, "mean_collective_bytes")
    ranks = number_of(diagnosis, "world_size")
    return None if not (count and mean and ranks) else wire_bytes("allreduce", count * mean, round(ranks))


def _sent_in_ns(diagnosis: Diagnosis) -> float | None:
    sent, rate = _sent_bytes(diagnosis), number_of(diagnosis, "expected_bus_bytes_per_s")
    return sent / rate * 1e9 if sent and rate else None


def _late_rank(diagnosis: Diagnosis) -> str | None:
    worst = next(iter(diagnosis.stragglers), None)
    return None if worst is None else f"Rank {worst.rank} is late: {worst.because}"


def _doubts(diagnosis: Diagnosis) -> str | None:
    return "; ".join(doubt.says for doubt in diagnosis.verdict.doubts) or None


def _light_step_ns(diagnosis: Diagnosis) -> float | None:
    speed = diagnosis.speed
    return None if speed.profiled or speed.job is None else float(speed.job.step_ns)


def _reserved(diagnosis: Diagnosis) -> int | None:
    counted = diagnosis.capacity.counted
    return None if counted is None else counted.recorded_reserved_bytes


def _allocated(diagnosis: Diagnosis) -> int | None:
    counted = diagnosis.capacity.counted
    return None if counted is None else counted.recorded_allocated_bytes


def _between(diagnosis: Diagnosis) -> int | None:
    reserved, allocated = _reserved(diagnosis), _allocated(diagnosis)
    return None if reserved is None or allocated is None else reserved - allocated


DERIVED: Mapping[str, tuple[Unit, Derived]] = {
    **{f"{class_}_ns": ("ns", _class_ns(class_)) for class_ in _CLASSES},
    **{f"{cause.lower().replace('-', '_')}_ns": ("ns", _cause_ns(cause)) for cause in CAUSES},
    "analysed_step_ns": ("ns", _step_ns),
    "iron_sum": ("text", _iron_sum),
    "own_mfu_share": ("share", lambda diagnosis: diagnosis.mfu.of_own_peak),
    "eta_share": ("share", _eta),
    "arithmetic_share": ("share", _class_share("compute")),
    "mfu_value_share": ("share", lambda diagnosis: diagnosis.mfu.value),
    "mfu_flops": ("flops", lambda diagnosis: diagnosis.mfu.model_flops_per_step),
    "mfu_peak_flops_per_s": ("flops_per_s", lambda d: d.mfu.own_peak_flops or d.mfu.peak_flops),
    "mfu_precision": ("text", lambda d: d.mfu.own_precision or d.mfu.peak_precision or None),
    "mfu_judged": ("text", lambda diagnosis: mfu_words(diagnosis) if diagnosis.mfu.value else None),
    "mfu_unknown": ("text", _mfu_unknown),
    "without_data_wait_ns": ("ns", _left_without(_cause_ns("data-wait"))),
    "without_data_wait_factor": ("factor", _best_without_data),
    "without_exposed_ns": ("ns", _left_without(_class_ns("communication"))),
    "kernel_work_ns": ("ns", _kernel_work_ns),
    "step_per_kernel_ns": ("ns", _step_per_kernel_ns),
    "work_factor": ("factor", _work_factor),
    "collectives_ns": ("ns", _collectives_ns),
    "sent_bytes_per_s": ("bytes_per_s", _sent_rate),
    "sent_bytes": ("bytes", _sent_bytes),
    "sent_in_ns": ("ns", _sent_in_ns),
    "late_rank": ("text", _late_rank),
    "verdict_class": ("text", lambda diagnosis: diagnosis.verdict.class_),
    "verdict_between": ("text", lambda diagnosis: " and ".join(diagnosis.verdict.between) or None),
    "verdict_because": ("text", lambda d: None if d.verdict.withheld else d.verdict.because),
    "verdict_withheld": ("text", lambda diagnosis: diagnosis.verdict.withheld or None),
    "verdict_confidence": ("text", lambda diagnosis: diagnosis.verdict.confidence),
    "verdict_doubts": ("text", _doubts),
    "light_step_ns": ("ns", _light_step_ns),
    "reserved_bytes": ("bytes", _reserved),
    "allocated_bytes": ("bytes", _allocated),
    "between_tensors_bytes": ("bytes", _between),
    **hardware.DERIVED,
    **attention.DERIVED,
}
"""What follows from a diagnosis, by name: its unit, and how it is found; None is unknown."""
