"""The stages of a measured pipeline: how fast each is, what bounds it, and which is the smallest."""

import re
import statistics
from math import inf, sqrt

from diagnose.commands.data.answer import Bound, FunctionShare, Stage
from diagnose.commands.data.measured import LoadingMeasurement, Moved, StageStacks, StageTime
from diagnose.metrics.data.loader_work import WORDS, LoadingTime, take_turns, what_bounds

WAITS_FOR_FILES = 2.0  # times the rate of the dataset at most, so that reading its files is what it waits for
MOST_OF_IT = 0.2  # of the samples of a stage, from which on a kind of work names it
LEAST_STACKS = 10
_ON_FILES = "measure it with data in files of a local disk"
_ON_A_GPU = "run it on a machine with the GPU"
_TAKES_CALLS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def stages_of(measured: LoadingMeasurement) -> tuple[Stage, ...]:
    """Every stage in the order of the data, unknown ones with the reason."""
    workers = measured.loader.num_workers or 0
    at_once = max(workers, 1)
    stages = [
        _moved("storage, cold", measured, measured.storage.cold, _ON_FILES, 1),
        _moved("storage, warm", measured, measured.storage.warm, _ON_FILES, at_once),
        _in_process("dataset", measured, measured.fetch, measured.stacks.fetch, at_once),
        _in_process("collate", measured, measured.collate, measured.stacks.collate, at_once),
        _handed_over(measured, workers),
        _moved("pinning", measured, measured.pin, _ON_A_GPU, 1),
        _moved("copy to the device", measured, measured.copy, _ON_A_GPU, 1),
    ]
    return tuple(stages)


def smallest_of(stages: tuple[Stage, ...], workers: int) -> tuple[Stage | None, str]:
    """The stage that limits the loader, and why; reading its files is a part of the dataset's stage."""
    by_name = {stage.name: stage for stage in stages}
    dataset, cold = by_name["dataset"], by_name["storage, cold"]
    left_out = ("storage, cold", "storage, warm", *(() if workers else ("hand-over",)))
    known = [stage for stage in stages if stage.in_job_samples_per_s is not None and stage.name not in left_out]
    if not known:
        return None, ""
    smallest = min(known, key=lambda stage: stage.in_job_samples_per_s or 0.0)
    waits = smallest is dataset and dataset.bound in ("io", "both")
    if waits and (cold.samples_per_s or inf) <= WAITS_FOR_FILES * (dataset.samples_per_s or 0.0):
        return cold, "the dataset waits for its files, which are read this fast from where they lie"
    return smallest, _because(smallest)


def _because(stage: Stage) -> str:
    """The limit of a stage, in the words of all reports."""
    share = "" if stage.busy_share is None else f"{100 * stage.busy_share:.0f} % of its time"
    if stage.bound == "cpu":
        return f"it is CPU-bound: it {WORDS['cpu']} for {share}"
    if stage.bound == "core":
        return f"it is short of cores: it has work for {share}, and {WORDS['core']} for most of that"
    if stage.bound == "io":
        return f"it is IO-bound: it computes for {share} and {WORDS['io']} for the rest"
    named = "it is GIL-bound: " if stage.bound == "gil" else ""
    return f"{named}it {WORDS[stage.bound]}" if stage.bound else ""


def _in_process(
    name: str, measured: LoadingMeasurement, time: StageTime, stacks: StageStacks | None, at_once: int
) -> Stage:
    rate = time.samples / time.wall_ns * 1e9 if time.wall_ns and time.samples else None
    busy = _busy(time)
    return Stage(
        name=name,  # type: ignore[arg-type]
        work=_work(stacks),
        samples_per_s=rate,
        spread=_spread(time),
        bytes_per_s=None if rate is None or time.sample_bytes is None else rate * time.sample_bytes,
        processes=at_once,
        in_job_samples_per_s=None if rate is None else rate * _at_once(at_once, busy, measured),
        busy_share=busy,
        bound=_bound(name, time, measured),
        functions=_functions(stacks),
    )


def _at_once(workers: int, busy: float | None, measured: LoadingMeasurement) -> float:
    """Number of processes that run at the same time: no more than the rank's cores allow."""
    cores = measured.cores.per_rank
    return workers if cores is None or not busy else max(min(workers, cores / min(busy, cores)), 1.0)


def _busy(time: StageTime) -> float | None:
    """Share of the time in which the stage computes, on all threads, or is ready to and has no core."""
    if not time.wall_ns:
        return None
    together = max(time.cpu_ns + time.queued_ns, min(time.process_cpu_ns, time.wall_ns))
    return min(together / time.wall_ns, 1.0)


def _bound(name: str, time: StageTime, measured: LoadingMeasurement) -> Bound:
    if not time.wall_ns:
        return ""
    loading = measured.loading
    if name == "dataset" and loading.wall_ns and loading.together_cpu_ns is not None:
        share, fetching = loading.together_cpu_ns / loading.wall_ns, (loading.cpu_ns or 0) / loading.wall_ns
        if take_turns(share, fetching, loading.busy or 0.0):
            return "gil"
    together = time.process_cpu_ns / time.wall_ns
    shares = LoadingTime(time.cpu_ns / time.wall_ns, time.queued_ns / time.wall_ns, min(together, 1.0), together)
    return what_bounds(shares) or ""


def _spread(time: StageTime) -> float | None:
    """Relative standard error of the mean time of a batch; None for a single one."""
    if len(time.times_ns) < 2 or not time.wall_ns:
        return None
    mean = statistics.fmean(time.times_ns)
    return statistics.stdev(time.times_ns) / sqrt(len(time.times_ns)) / mean if mean else None


def _work(stacks: StageStacks | None) -> str:
    if stacks is None or stacks.samples < LEAST_STACKS or not stacks.work:
        return ""
    word = max(stacks.work, key=lambda each: stacks.work[each])
    return word if stacks.work[word] >= MOST_OF_IT * stacks.samples else ""


def _functions(stacks: StageStacks | None) -> tuple[FunctionShare, ...]:
    if stacks is None or stacks.samples < LEAST_STACKS:
        return ()
    return tuple(
        FunctionShare(
            file=each.file,
            line=each.line,
            function=each.function,
            calls=each.calls if each.calls and _TAKES_CALLS.match(each.calls) else None,
            share=each.samples / stacks.samples,
        )
        for each in stacks.functions
        if each.samples
    )


def _moved(name: str, measured: LoadingMeasurement, moved: Moved, capture: str, at_once: int) -> Stage:
    because = moved.because or (measured.storage.because if name.startswith("storage") else "")
    if because or not moved.wall_ns:
        return Stage(name=name, because=because or "nothing was read", capture=capture)  # type: ignore[arg-type]
    rate = moved.samples / moved.wall_ns * 1e9
    return Stage(
        name=name,  # type: ignore[arg-type]
        samples_per_s=rate,
        bytes_per_s=moved.bytes / moved.wall_ns * 1e9,
        processes=at_once,
        in_job_samples_per_s=rate * at_once,
    )


def _handed_over(measured: LoadingMeasurement, workers: int) -> Stage:
    over = measured.hand_over
    rate = over.samples_per_s
    if rate is None:
        return Stage(name="hand-over", because=over.because, capture="make the batches picklable")
    size = measured.collate.sample_bytes
    return Stage(
        name="hand-over",
        samples_per_s=rate,
        bytes_per_s=None if size is None else rate * size,
        processes=max(workers, 1),
        in_job_samples_per_s=rate if workers else None,
    )
