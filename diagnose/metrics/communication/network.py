"""The links between ranks: how fast they are."""

from diagnose.facts import Unknown, Value, another_run
from diagnose.metrics.communication.job_size import nodes
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric


@metric("bytes_per_s")
def bus_bytes_per_s(m: Measured) -> Value:
    """Bus bandwidth that the best of the messages of 16 MiB or more reach, waiting for late ranks taken out."""
    return m.job.bus_bytes_per_s


@metric("share", "one direction of the GPU's NVLink")
def bus_rate_share(m: Measured) -> Value:
    """Bus bandwidth of large messages over what the links between GPUs of one node carry in one direction."""
    rate, count = bus_bytes_per_s(m), nodes(m)
    if isinstance(rate, Unknown):
        return rate
    if isinstance(count, Unknown) or int(count) > 1:
        why = "the bandwidth of the network between nodes is not known"
        return Unknown(why, another_run("compare bus_bytes_per_s with nccl-tests on the same nodes"))
    link = m.gpu_info.nvlink_one_way_gbs if m.gpu_info else None
    if not link:
        return Unknown("the GPU has no NVLink, or the table does not know it", another_run("compare with nccl-tests"))
    return float(rate) / (link * 1e9)


@metric("bytes_per_s")
def expected_bus_bytes_per_s(m: Measured) -> Value:
    """Bus bandwidth of messages of 16 MiB or more by the size curve of a node's links, of a ring between nodes."""
    reached = m.job.bus_reached
    return reached if isinstance(reached, Unknown) else reached.expected


@metric("share", "bus bandwidth to expect of the links at these sizes")
def curve_rate_share(m: Measured) -> Value:
    """Bus bandwidth of large collectives over `expected_bus_bytes_per_s`, in the group where they take longest. In a
    job of several nodes, only groups that span several count.
    """
    reached = m.job.bus_reached
    return reached if isinstance(reached, Unknown) else reached.measured / reached.expected


@metric("count")
def comparable_groups(m: Measured) -> Value:
    """Process groups about as slow, and as large, as that whose large messages take longest, itself included."""
    reached = m.job.bus_reached
    return reached if isinstance(reached, Unknown) else reached.groups
