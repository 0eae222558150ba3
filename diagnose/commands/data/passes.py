"""Advice on short passes, the start of workers, their cores and repeated samples, before any number of workers."""

from diagnose.commands.data.measured import LoadingMeasurement, Rounds
from diagnose.facts import spoken
from diagnose.metrics.data.loader_passes import hidden_ns, kept_workers_ns, loads_hardly_ahead

LEAST_START_SHARE = 0.05  # of a pass
SPLIT = "give each worker a part of its own (torch.utils.data.get_worker_info), or load without workers"


def repeated(times: int) -> str:
    """The finding that each of several workers gives all samples; "" if none does."""
    return f"each of the {times} workers gives every sample: all come {times} times; {SPLIT}" if times > 1 else ""


def no_workers(measured: LoadingMeasurement) -> str:
    """Why workers would cost a pass over this loader more than they hide; "" if they do not, or if it is not known."""
    batches, hand_over_s, workers = measured.pass_batches, _hand_over_s(measured), measured.loader.num_workers or 0
    made = len(measured.fetch.times_ns)
    if not batches or hand_over_s is None or not made:
        return ""
    if workers and not loads_hardly_ahead(batches, workers):
        return ""
    spent_ns = measured.fetch.wall_ns + measured.collate.wall_ns
    on_a_core_ns = spent_ns - measured.fetch.queued_ns - measured.collate.queued_ns
    loading_ns = on_a_core_ns * measured.batch_size / max(measured.fetch.samples, 1) * batches
    cost_ns, hidden = kept_workers_ns(batches, 1e9 * hand_over_s), hidden_ns(loading_ns, batches)
    if cost_ns < hidden:
        return ""
    cost, most, all_of_it = (spoken(ns, "ns") for ns in (cost_ns, hidden, loading_ns))
    return (
        f"{batches} batches per pass: workers cost about {cost} in each even if they stay for all passes, and hide at "
        f"most {most} of its {all_of_it} of loading"
    )


def do_first(measured: LoadingMeasurement) -> str:
    """What to do about the workers of the job before their number is changed; "" for nothing."""
    with_workers = next((each for each in measured.workers if each.workers == measured.loader.num_workers), None)
    if with_workers is None or not with_workers.batches:
        return ""
    return _unbind(measured, with_workers) or _keep(measured, with_workers)


def _unbind(measured: LoadingMeasurement, rounds: Rounds) -> str:
    rank = measured.cores.per_rank
    if rounds.cores is None or rank is None or rounds.cores >= min(rank, rounds.workers):
        return ""
    return (
        f"workers may use {rounds.cores} of {rank:.3g} cores: something binds them; call os.sched_setaffinity(0, "
        "range(os.cpu_count())) in worker_init_fn"
    )


def _keep(measured: LoadingMeasurement, rounds: Rounds) -> str:
    """That workers should stay from one pass to the next, where their start is much of a pass that is not trained."""
    if measured.loader.persistent_workers or not measured.pass_batches:
        return ""
    start_s = rounds.first_s - measured.first_s
    batch_s = rounds.wall_ns / rounds.batches / 1e9
    share = start_s / max(start_s + measured.pass_batches * batch_s, 1e-9)
    if share < LEAST_START_SHARE:
        return ""
    return (
        f"they start anew in each pass of {measured.pass_batches} batches, which takes {start_s:.2g} s: "
        "persistent_workers=True"
    )


def _hand_over_s(measured: LoadingMeasurement) -> float | None:
    rate = measured.hand_over.samples_per_s
    return measured.batch_size / rate if rate else None
