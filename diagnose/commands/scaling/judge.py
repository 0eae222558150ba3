"""Judge runs of a job at several sizes."""

from collections.abc import Sequence

from msgspec.structs import replace

from diagnose.commands.scaling.answer import Scaling, ScalingReport, Size, TaxPart, Wall
from diagnose.commands.scaling.arithmetic import each, inverse, scaled
from diagnose.commands.scaling.purposes import purposes_of
from diagnose.commands.scaling.question import FURTHER, ScalingQuestion
from diagnose.commands.scaling.runs_fit import Fit, fit_of, kind_of
from diagnose.diagnosis import Estimate, Money
from diagnose.formulas.scaling import cost_factor, efficiency_per_doubling, scaling_efficiency, scaling_tax_s
from diagnose.predict.costs import BILLION, hours_of, money_of
from diagnose.predict.job_run import JobRun, JobRuns

_NO_TOKENS = (
    "no run tells the tokens of a step: pass --tokens-per-step-per-gpu, or --global-tokens-per-step where all sizes"
    " share one batch"
)
_NOTED_SPREAD = 0.1


def report_of(
    jobs: Sequence[JobRuns], sources: Sequence[str], notes: Sequence[str], question: ScalingQuestion
) -> ScalingReport:
    """The answer for each job.

    Args:
        jobs: jobs with their runs.
        sources: the files that were read.
        notes: on omissions and assumptions.
        question: of the user.
    """
    tariff = question.tariff
    captured = [run.power_w for job in jobs for run in job.runs if run.power_w]
    return ScalingReport(
        sources=tuple(sources),
        jobs=tuple(scaling_of(job, question) for job in jobs),
        gpu_hour_price=tariff.gpu_hour_price,
        power_w=tariff.power_w or (captured[-1] if captured else None),
        power_from="--power-w" if tariff.power_w else "the capture" if captured else "",
        pue=tariff.pue,
        kg_per_kwh=tariff.kg_per_kwh,
        tokens=question.tokens,
        notes=tuple(dict.fromkeys(notes)),
    )


def scaling_of(job: JobRuns, question: ScalingQuestion) -> Scaling:
    """Judge the runs of a job for the question."""
    given = (question.tokens_per_step, question.tokens_per_step_per_gpu)
    every = sorted((run.completed(*given) for run in job.runs), key=lambda run: run.gpus)
    rated = [run for run in every if run.tokens_per_s]
    notes = [f"{len(every) - len(rated)} runs have no rate and are left out"] * (0 < len(rated) < len(every))
    if not rated:
        return _without_rates(job, every)
    fit = fit_of(rated)
    sizes = _sizes(fit, question)
    return Scaling(
        name=job.name,
        kind=fit.kind,
        base_gpus=fit.base,
        sizes=tuple(sizes),
        wall=fit.wall(),
        purposes=tuple(purposes_of(sizes, question)),
        notes=(*notes, *_notes(fit, sizes)),
        because=fit.because,
    )


def _without_rates(job: JobRuns, runs: Sequence[JobRun]) -> Scaling:
    """The answer from step times alone: without tokens per step, the work of a longer step is unknown."""
    sizes = [_only_step([run for run in runs if run.gpus == gpus]) for gpus in job.sizes]
    base, wall = job.sizes[0], Wall(because=_NO_TOKENS)
    return Scaling(
        name=job.name,
        kind=kind_of(runs),
        base_gpus=base,
        sizes=tuple(sizes),
        wall=wall,
        purposes=(),
        notes=(),
        because=_NO_TOKENS,
    )


def _only_step(runs: Sequence[JobRun]) -> Size:
    steps = sorted(run.step_s for run in runs if run.step_s)
    middle = (steps[0], steps[len(steps) // 2], steps[-1]) if steps else None
    return Size(
        gpus=runs[0].gpus,
        nodes=runs[0].nodes,
        runs=len(runs),
        step_s=middle,
        tokens_per_step=None,
        tokens_per_s=None,
        tokens_per_s_per_gpu=None,
        speedup=None,
        efficiency=None,
        doubling_efficiency=None,
        tax_s=None,
        communication_s=runs[0].communication_s,
        cost_factor=None,
    )


def _sizes(fit: Fit, question: ScalingQuestion) -> list[Size]:
    """The sizes that were run, then their doublings as far as requested."""
    measured = sorted({run.gpus for run in fit.runs})
    further = [] if fit.because else _doublings(fit.largest, question.up_to or FURTHER * fit.largest)
    sizes: list[Size] = []
    for gpus in (*measured, *further):
        sizes.append(_size(fit, gpus, sizes[-1] if sizes else None, question))
    return sizes


def _doublings(largest: int, up_to: int) -> list[int]:
    found, size = [], 2 * largest
    while size <= up_to:
        found.append(size)
        size *= 2
    return found + [up_to] * (up_to > largest and up_to not in found)


def _size(fit: Fit, gpus: int, before: Size | None, question: ScalingQuestion) -> Size:
    runs = [run for run in fit.runs if run.gpus == gpus]
    rate, tokens = fit.rate_at(gpus), _tokens(fit, gpus, runs)
    per_gpu = scaled(rate, 1 / gpus)
    alone = fit.rate_at(fit.base)[1] / fit.base
    tariff = replace(question.tariff, power_w=question.tariff.power_w or _power(fit, runs))
    training_h = None if question.tokens is None else inverse(rate, lambda r: hours_of(question.tokens or 0.0, r))
    efficiency = (1.0, 1.0, 1.0) if before is None else each(per_gpu, lambda r: scaling_efficiency(r, alone))
    return Size(
        gpus=gpus,
        nodes=runs[0].nodes if runs else None,
        runs=len(runs),
        step_s=None if tokens is None else inverse(rate, lambda r: tokens / r),
        tokens_per_step=tokens,
        tokens_per_s=rate,
        tokens_per_s_per_gpu=per_gpu,
        speedup=scaled(efficiency, gpus / fit.base),
        efficiency=efficiency,
        doubling_efficiency=_doubling(fit, gpus, bool(runs), before),
        tax_s=_tax_s(per_gpu, alone, None if tokens is None else tokens / gpus, before),
        tax_parts=_tax_parts(fit, runs),
        communication_s=runs[0].communication_s if len(runs) == 1 else None,
        cost_factor=(1.0, 1.0, 1.0) if before is None else inverse(per_gpu, lambda r: cost_factor(r, alone)),
        billion=money_of(tariff, gpus, inverse(rate, lambda r: hours_of(BILLION, r))),
        training_h=training_h,
        training=Money() if training_h is None else money_of(tariff, gpus, training_h),
    )


def _tokens(fit: Fit, gpus: int, runs: Sequence[JobRun]) -> float | None:
    """Tokens of a step of the job: of its runs, else by the rule of the sizes."""
    if runs:
        return runs[0].tokens_per_step
    work = fit.work(gpus)
    return None if fit.base_tokens is None or work is None else fit.base_tokens * work * gpus


def _power(fit: Fit, runs: Sequence[JobRun]) -> float | None:
    """Captured power of a GPU: at this size, else at the largest with a known power."""
    known = [run.power_w for run in runs or fit.runs[::-1] if run.power_w]
    return known[0] if known else None


def _doubling(fit: Fit, gpus: int, measured: bool, before: Size | None) -> Estimate | None:
    if before is None or before.tokens_per_s_per_gpu is None:
        return None
    if not measured:
        return fit.doubling(before.gpus, gpus)
    here = fit.rate_at(gpus)
    rates = [(here[i] / gpus, before.tokens_per_s_per_gpu[2 - i]) for i in range(3)]
    low, likely, high = (efficiency_per_doubling(before.gpus, old, gpus, new) for new, old in rates)
    return low, likely, high


def _tax_s(per_gpu: Estimate, alone: float, tokens: float | None, before: Size | None) -> Estimate | None:
    """Seconds that a step takes longer than the same work of a GPU at the smallest size."""
    if tokens is None:
        return None
    if before is None:
        return 0.0, 0.0, 0.0
    return inverse(per_gpu, lambda rate: scaling_tax_s(tokens, 1, rate, alone))


def _tax_parts(fit: Fit, runs: Sequence[JobRun]) -> tuple[TaxPart, ...]:
    """The parts of the tax, if one run of this size and one of the smallest have a diagnosis; they add up to it."""
    smallest = [run for run in fit.runs if run.gpus == fit.base]
    if len(runs) != 1 or len(smallest) != 1 or runs[0] is smallest[0] or not (runs[0].parts_s and smallest[0].parts_s):
        return ()
    tokens, before = runs[0].tokens_per_step, smallest[0].tokens_per_step
    work = tokens / runs[0].gpus / (before / fit.base) if tokens and before else 1.0
    names = {**runs[0].parts_s, **smallest[0].parts_s}
    beyond = {n: runs[0].parts_s.get(n, 0.0) - work * smallest[0].parts_s.get(n, 0.0) for n in names}
    ordered = sorted(beyond.items(), key=lambda part: -abs(part[1]))
    return tuple(TaxPart(name=name, s=seconds) for name, seconds in ordered)


def _notes(fit: Fit, sizes: Sequence[Size]) -> list[str]:
    """Notes on what makes the numbers less sure, one sentence each."""
    told = []
    if fit.kind == "unknown":
        told.append("the tokens of a step are not known: more GPUs are taken to do the same work each")
    if not fit.because and any(run.nodes is None for run in fit.runs):
        told.append("no run tells its nodes: more GPUs are taken to be joined as those that were run")
    for size in sizes:
        rates = [run.tokens_per_s or 0.0 for run in fit.runs if run.gpus == size.gpus]
        if len(rates) > 1 and max(rates) > (1 + _NOTED_SPREAD) * min(rates):
            apart = max(rates) / min(rates) - 1
            told.append(f"the runs of {size.gpus} GPUs differ by {100 * apart:.0f} %: are they of one job?")
    return told + _communication_note(fit, sizes)


def _communication_note(fit: Fit, sizes: Sequence[Size]) -> list[str]:
    """A note if a diagnosis shows that the tax is mostly not communication."""
    last = next((size for size in sizes if size.gpus == fit.largest), None)
    if last is None or last.communication_s is None or last.tax_s is None or last.tax_s[1] <= 0:
        return []
    if last.communication_s >= last.tax_s[1] / 2:
        return []
    return [
        f"of the {1e3 * last.tax_s[1]:.1f} ms that a step lasts longer at {last.gpus} GPUs, exposed communication is"
        f" {1e3 * last.communication_s:.1f} ms: the wall is that of all that grows with the GPUs"
    ]
