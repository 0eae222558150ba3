"""The DataLoader: its settings, and how its batches reach the device."""

import numpy as np

from diagnose.facts import Unknown, Value, analysis_option, another_run, nothing_helps
from diagnose.metrics.communication.ddp import uses_ddp
from diagnose.metrics.communication.job_size import world_size
from diagnose.metrics.kernel_groups.phases import copies_to_device, pageable_copies
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.probes.apply.reasons import Reason
from diagnose.trace.refused import refused_by

_NO_SHARDS = Unknown("the data is no stream with shards", nothing_helps("any worker can read it"))
_ONE_RANK = Unknown(
    "whether ranks share the samples out takes the records of all", analysis_option("the traces of all ranks")
)


@metric("count", needs_gpu=False)
def loader_worker_count(m: Measured) -> Value:
    """Worker processes of the DataLoader."""
    return m.recorded(m.record.number("dataloader.num_workers"))


@metric("count", needs_gpu=False)
def loader_shards(m: Measured) -> Value:
    """Shards of the stream that the DataLoader reads, as many as workers get any of it."""
    return m.record.number("dataloader.shards") or (_NO_SHARDS if m.record else m.unrecorded)


@metric("count", needs_gpu=False)
def samples_repeated(m: Measured) -> Value:
    """How often an epoch gives each sample: more than once where workers of an IterableDataset share none of it out."""
    return m.recorded(m.record.number("dataloader.times_repeated"))


@metric("flag", needs_gpu=False)
def workers_repeat_stream(m: Measured) -> Value:
    """Whether each worker gives, or would give, all samples of an IterableDataset, whose code gives it no part."""
    if not m.record:
        return m.unrecorded
    repeated = m.record.number("dataloader.times_repeated") or 1
    return repeated > 1 or any(each.because == Reason.REPEATED.text for each in refused_by(m.record))


@metric("count", needs_gpu=False)
def samples_repeated_by_ranks(m: Measured) -> Value:
    """How often the ranks of DDP together get each sample in a pass: as often as there are ranks if each draws from all
    rows of the same dataset. Datasets whose rows only their own code shows count as parts.
    """
    if not m.record:
        return m.unrecorded
    if uses_ddp(m) is not True or world_size(m) == 1:
        return 1
    return _ONE_RANK if m.job.ranks < 2 else m.job.ranks if m.job.same_rows else 1


@metric("flag", needs_gpu=False)
def pinned_memory(m: Measured) -> Value:
    """Whether the DataLoader pins its batches."""
    return m.recorded(m.record.flag("dataloader.pin_memory"))


@metric("text", needs_gpu=False)
def loader_workers(m: Measured) -> Value:
    """Whether the DataLoader has worker processes: "none" or "some"."""
    count = m.record.number("dataloader.num_workers")
    if count is not None:
        return "some" if count else "none"
    names = " ".join(n for n in m.timeline.trace.names if n.startswith("enumerate(DataLoader)#"))
    if "_MultiProcessing" in names:
        return "some"
    if "_SingleProcess" in names:
        return "none"
    return Unknown(
        "no DataLoader range in the trace",
        another_run("feed batches through torch.utils.data.DataLoader, or name the fetch with diagnose.probes.range"),
    )


@metric("share", "bytes copied to the device")
def pageable_copy_share(m: Measured) -> Value:
    """Host-to-device bytes copied from memory that is not pinned; such copies hold the host."""
    gpu = m.timeline.gpu
    down = copies_to_device(m)
    size = np.maximum(m.timeline.trace.bytes[gpu.row], 0)
    total = int(size[down].sum())
    if not total:
        return Unknown("no copy to the device with a size", nothing_helps("the step copies no input"))
    return int(size[pageable_copies(m)].sum()) / total


@metric("flag", needs_gpu=False)
def persistent_workers(m: Measured) -> Value:
    """Whether the DataLoader keeps its workers from one epoch to the next."""
    return m.recorded(m.record.flag("dataloader.persistent_workers"))


@metric("count", needs_gpu=False)
def prefetched_batches(m: Measured) -> Value:
    """Batches that each worker of the DataLoader prepares ahead (prefetch_factor)."""
    return m.recorded(m.record.number("dataloader.prefetch_factor"))
