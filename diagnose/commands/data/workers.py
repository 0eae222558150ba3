"""Rates of the loader by number of workers, and the number that a step needs."""

from diagnose.commands.data.answer import Feeds, LoaderRate, Stage, WorkersNeeded
from diagnose.commands.data.measured import LoadingMeasurement, Rounds
from diagnose.commands.data.question import LoaderQuestion
from diagnose.formulas.data_pipeline import shared_s, workers_needed
from diagnose.metrics.data.loader_workers import LEAST_EFFICIENCY, workers_fed

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
