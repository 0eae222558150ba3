"""The host during the steps: swapping, storage, the network, and the distance to the GPU."""

from diagnose.facts import Value
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.clocks import read
from diagnose.trace.readings import limit, reading, total

_NS = 1e9


@metric("bytes_per_s", needs_gpu=False)
def swap_bytes_per_s(m: Measured) -> Value:
    """Memory that the host moves to its disk and back."""
    moved, wall_s = total(m.record, "swap_bytes"), m.record.number("machine_samples.wall_s")
    return read(m, share(moved, wall_s))


@metric("flag")
def far_from_gpu(m: Measured) -> Value:
    """Whether the training thread mostly runs on cores of another NUMA node than the GPU's."""
    nodes, far = limit(m.record, "numa_nodes"), reading(m.record, "far_from_gpu")
    if nodes is not None and nodes <= 1:
        return False
    return read(m, None) if far is None else far.median > 0.5


@metric("count")
def cores_near_gpu(m: Measured) -> Value:
    """Cores that the process may use on the GPU's own NUMA node."""
    return read(m, limit(m.record, "cores_near_gpu"))


@metric("share", "the wall time", needs_gpu=False)
def storage_wait_share(m: Measured) -> Value:
    """Time in which a process of the cgroup, else of the host, waits for storage; the median second of the window."""
    waited = reading(m.record, "storage_wait_ns", "rates")
    return read(m, None if waited is None else min(waited.median / _NS, 1.0))


@metric("bytes_per_s", needs_gpu=False)
def storage_read_bytes_per_s(m: Measured) -> Value:
    """Bytes per second that the process and its loader workers read from storage, in the median second of the
    window.
    """
    rates = [reading(m.record, name, "rates") for name in ("disk_read_bytes", "workers_disk_read_bytes")]
    known = [rate.median for rate in rates if rate is not None]
    return read(m, sum(known) if known else None)


@metric("bytes_per_s", needs_gpu=False)
def dropped_cache_bytes_per_s(m: Measured) -> Value:
    """Bytes per second read from storage again because the page cache dropped them, in the median second of the
    window.
    """
    again = reading(m.record, "read_again_bytes", "rates")
    return read(m, None if again is None else again.median)


@metric("bytes_per_s", needs_gpu=False)
def network_received_bytes_per_s(m: Measured) -> Value:
    """Bytes per second that the host's network cards receive, without InfiniBand, in the median second of the
    window.
    """
    received = reading(m.record, "network_received_bytes", "rates")
    return read(m, None if received is None else received.median)
