"""Judge the measurement of an input pipeline."""

from msgspec.structs import replace

from diagnose.commands.data.answer import (
    Feeds,
    LoaderRate,
    LockHeld,
    Padding,
    PaddingGain,
    PipelineReport,
    Stage,
    WorkersNeeded,
)
from diagnose.commands.data.measured import LoadingMeasurement, Rounds, ThreadTimes
from diagnose.commands.data.padding import GROUPING, padding_of
from diagnose.commands.data.passes import do_first, no_workers, repeated
from diagnose.commands.data.question import LoaderQuestion
from diagnose.commands.data.stages import smallest_of, stages_of
from diagnose.diagnosis.estimates import number
from diagnose.formulas import share
from diagnose.formulas.data_pipeline import shared_s, workers_needed
from diagnose.metrics.data.loader_work import COMPUTES, SEVERAL, TAKES_TURNS
from diagnose.metrics.data.loader_workers import LEAST_EFFICIENCY, workers_fed
from diagnose.patch.refusals import Standing
from diagnose.trace.refused import refused_in

AT_ONCE = 1.7  # cores; what loading and a thread in Python use at least if neither waits for the lock
BUSY_HOST = 0.2  # of the time in process, without a core to run on


def report_of(measured: LoadingMeasurement, question: LoaderQuestion) -> PipelineReport:
    """The report: rates, the smallest of them, workers, padding."""
    stages = stages_of(measured)
    dataset = next(stage for stage in stages if stage.name == "dataset")
    smallest, because = smallest_of(stages, measured.loader.num_workers or 0)
    lock, lock_because = lock_of(measured, dataset.busy_share)
    rates = rates_of(measured)
    standing = Standing(refused_in(measured.refuses))
    return PipelineReport(
        loop=measured.loop,
        dataset=measured.dataset.name,
        dataset_samples=measured.dataset.samples,
        is_iterable=measured.dataset.is_iterable,
        batch_size=measured.batch_size,
        num_workers=measured.loader.num_workers or 0,
        world_size=measured.world_size,
        samples=measured.fetch.samples,
        seconds=measured.seconds,
        stages=stages,
        smallest=None if smallest is None else smallest.name,
        smallest_because=because or _why_handing_over(smallest, rates, measured.loader.num_workers or 0),
        lock=lock,
        lock_because=lock_because,
        queued_share=_queued_share(measured),
        loader=rates,
        workers=_workers(measured, needed(measured, question, dataset), standing),
        padding=_groupable(padding_of(measured), standing),
        notes=tuple(_notes(measured)),
    )


def _workers(measured: LoadingMeasurement, workers: WorkersNeeded, standing: Standing) -> WorkersNeeded:
    """The workers that a step needs; no number if the job refuses them, or if they cost a pass more than they hide."""
    refused = repeated(measured.times_repeated) or standing.against_setting("dataloader_num_workers")
    refused = refused or no_workers(measured)
    if refused:
        return WorkersNeeded(room=workers.room, batches_per_step=workers.batches_per_step, refused=refused)
    return replace(workers, first=do_first(measured))


def _groupable(padding: Padding, standing: Standing) -> Padding:
    """The padding; without a gain from groups by length if the job refuses them."""
    because = standing.against_setting("train_sampling_strategy", "group_by_length")
    if not because:
        return padding
    gains = (PaddingGain(name=g.name, refused=because) if g.name in GROUPING else g for g in padding.gains)
    return replace(padding, gains=tuple(gains))


def _why_handing_over(smallest: Stage | None, rates: tuple[LoaderRate, ...], workers: int) -> str:
    """Reason to load without workers, if they lose more by handing over than they gain by loading; else ""."""
    by_workers = {rate.workers: rate.samples_per_s for rate in rates}
    alone, together = by_workers.get(0), by_workers.get(workers)
    if smallest is None or smallest.name != "hand-over" or not alone or not together or alone <= together:
        return ""
    text = f"without workers the loader gives {number(alone)} samples/s, with them {number(together)}"
    return f"its batches cost more to hand over than to load: {text}"


def lock_of(measured: LoadingMeasurement, busy_share: float | None) -> tuple[LockHeld, str]:
    """Whether loading holds Python's lock: then it and a thread in Python take turns, on however many cores."""
    lock = measured.lock
    if lock.in_python is None or lock.without_lock is None:
        return "unknown", lock.because
    if busy_share is None or busy_share < COMPUTES:
        return "unknown", "loading mostly waits, and does not need the lock meanwhile"
    if _together(lock.without_lock) < SEVERAL:
        return "unknown", "no second core was free to try it"
    together = _together(lock.in_python)
    return ("held" if together <= TAKES_TURNS else "free" if together >= AT_ONCE else "partly"), ""


def _together(beside: ThreadTimes) -> float:
    return share(beside.loading_ns + beside.beside_ns, beside.wall_ns) or 0.0


def _queued_share(measured: LoadingMeasurement) -> float:
    spent = measured.fetch.wall_ns + measured.collate.wall_ns
    return min(share(measured.fetch.queued_ns + measured.collate.queued_ns, spent) or 0.0, 1.0)


def _notes(measured: LoadingMeasurement) -> list[str]:
    notes = []
    if measured.world_size > 1:
        ranks = f"{measured.world_size} ranks"
        notes.append(f"rank 0 was measured alone: in the job {ranks} share storage, and those of a host its cores")
    if _queued_share(measured) > BUSY_HOST:
        share = f"{100 * _queued_share(measured):.0f} %"
        notes.append(f"the host is busy: for {share} of the time in process loading had no core, which lowers rates")
    if measured.stopped:
        notes.append(f"loading in process ended early: {measured.stopped}")
    if not measured.dataset.collated:
        notes.append("the loader does not batch (batch_size=None): a sample is one item of the dataset, maybe a batch")
    if measured.restarts:
        notes.append("the data is short: samples were loaded several times, and what caches them is faster for it")
    spreads = [measured.fetch.times_ns, measured.collate.times_ns]
    if any(0 < len(times) < 3 for times in spreads):
        loaded = len(measured.fetch.times_ns)
        were = "1 batch was" if loaded == 1 else f"{loaded} batches were"
        notes.append(f"{were} loaded in process: raise --seconds for firmer rates")
    return notes


# Rates of the loader by number of workers, and the number that a step needs.

FED = (1, 2, 4, 8, 16, 32)
_ROUNDING = 1e-9  # so that a batch that takes a step exactly needs no second worker
NO_STEP = "the time of a step is not known: pass --step-ms, or --run with a diagnosis of the job"


def rates_of(measured: LoadingMeasurement) -> tuple[LoaderRate, ...]:
    """The loader in process, and with each number of workers that was tried."""
    spent_ns = measured.fetch.wall_ns + measured.collate.wall_ns
    here = LoaderRate(
        workers=0,
        samples_per_s=measured.fetch.samples / spent_ns * 1e9 if spent_ns else None,
        first_batch_s=measured.first_s,
    )
    return (here, *(_rate(rounds) for rounds in measured.workers))


def _rate(rounds: Rounds) -> LoaderRate:
    if rounds.samples_per_s is None:
        return LoaderRate(workers=rounds.workers, because=rounds.because)
    return LoaderRate(
        workers=rounds.workers,
        samples_per_s=rounds.samples_per_s,
        first_batch_s=rounds.first_s,
        worker_cpu_share=rounds.cpu_share,
    )


def needed(measured: LoadingMeasurement, question: LoaderQuestion, dataset: Stage) -> WorkersNeeded:
    """The workers that a step needs, between perfect sharing and the worst loss to each other."""
    batch_s = _batch_s(measured)
    cores = measured.cores.per_rank
    room = None if cores is None else workers_fed(cores, dataset.busy_share, waits=dataset.bound == "io")
    if room is not None and dataset.bound != "io" and (least := _least_cores(measured)) is not None:
        room = min(room, least)
    per_step = question.batches_per_step or measured.batches_per_step or 1
    if batch_s is None:
        return WorkersNeeded(room=room, batches_per_step=per_step, because="no batch was timed")
    loss = _efficiency(measured)
    feeds = tuple(
        _feeds(workers, batch_s * per_step, loss)
        for workers in FED
        if workers <= max(FED[-1] if room is None else room, 1)
    )
    if question.step_s is None:
        return WorkersNeeded(room=room, batches_per_step=per_step, feeds=feeds, because=NO_STEP)
    work_s = batch_s * per_step * (1 - _ROUNDING)
    least = workers_needed(work_s, question.step_s)
    return WorkersNeeded(
        step_ms=1e3 * question.step_s,
        step_from=question.step_from,
        batches_per_step=per_step,
        least=least,
        most=least if least == 1 else workers_needed(work_s / loss, question.step_s),
        room=room,
        feeds=feeds,
    )


def _least_cores(measured: LoadingMeasurement) -> int | None:
    """Cores that all workers of a loader may use together; None if it was not read."""
    return min((each.cores for each in measured.workers if each.cores and each.workers > 1), default=None)


def _batch_s(measured: LoadingMeasurement) -> float | None:
    """Seconds of one worker per batch: measured with one worker, else in process."""
    single = next((each for each in measured.workers if each.workers == 1 and each.batches), None)
    if single is not None:
        return single.wall_ns / single.batches / 1e9
    batches = len(measured.fetch.times_ns)
    spent_ns = measured.fetch.wall_ns + measured.collate.wall_ns
    return spent_ns / (measured.fetch.samples / max(measured.batch_size, 1)) / 1e9 if batches and spent_ns else None


def _efficiency(measured: LoadingMeasurement) -> float:
    """Lowest efficiency of each of several workers relative to one alone: an estimate, or the measured one if lower."""
    rates = {each.workers: each.samples_per_s for each in measured.workers}
    most, one = max(rates, default=1), rates.get(1)
    together = rates.get(most)
    if most < 2 or not one or not together:
        return LEAST_EFFICIENCY
    return min(max(together / (most * one), 0.05), LEAST_EFFICIENCY)


def _feeds(workers: int, batch_s: float, efficiency: float) -> Feeds:
    best = shared_s(batch_s, workers)
    worst = best if workers == 1 else best / efficiency
    return Feeds(workers=workers, step_ms=(1e3 * best, 5e2 * (best + worst), 1e3 * worst))
