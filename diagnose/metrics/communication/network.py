"""The links between ranks: how fast they are."""

from diagnose.facts import Unknown, Value, another_run, nothing_helps, spoken
from diagnose.metrics.communication.job_size import nodes
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.environment import UNTOLD
from diagnose.metrics.unknowns import NO_RECORD
from diagnose.ranks.network.ports import Ports, ports_of

SEVERAL_NODES = Unknown(
    "the ranks are on several nodes, and what they reach is compared with their network (curve_rate_share)",
    another_run("compare bus_bytes_per_s with nccl-tests on the same nodes"),
)
ONE_NODE = Unknown("the ranks are on one node", nothing_helps("they use no network"))
STATED = Unknown("the rate of the network is stated, not that of its ports", nothing_helps("what is stated counts"))


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
        return SEVERAL_NODES
    link = m.gpu_info.nvlink_one_way_gbs if m.gpu_info else None
    if not link:
        return Unknown("the GPU has no NVLink, or the table does not know it", another_run("compare with nccl-tests"))
    return float(rate) / (link * 1e9)


@metric("bytes_per_s")
def expected_bus_bytes_per_s(m: Measured) -> Value:
    """Bus bandwidth of messages of 16 MiB or more by the size curve of a node's links, of a ring between nodes."""
    reached = m.job.bus_reached
    return reached if isinstance(reached, Unknown) else reached.expected


@metric("bytes_per_s")
def reached_bus_bytes_per_s(m: Measured) -> Value:
    """Bus bandwidth of the large messages that are compared with `expected_bus_bytes_per_s`."""
    reached = m.job.bus_reached
    return reached if isinstance(reached, Unknown) else reached.measured


@metric("text")
def node_network(m: Measured) -> Value:
    """The network of a node in words: its ports that NCCL can use and their rate, or the stated rate."""
    reached, topology = m.job.bus_reached, m.job.topology
    if isinstance(reached, Unknown):
        return reached
    if not reached.between_nodes or topology.node_gbs is None:
        return ONE_NODE
    if topology.ports is None:
        return f"the stated {spoken(topology.node_gbs * 1e9, 'bytes_per_s')} of a node"
    return _in_words(topology.ports, topology.node_gbs)


def _in_words(ports: Ports, used_gbs: float) -> str:
    """ "2 of each node's 8 InfiniBand ports of 50.0 GB/s", if a node has fewer ranks than ports."""
    used, rate = round(used_gbs / ports.each_gbs), spoken(ports.each_gbs * 1e9, "bytes_per_s")
    several = f"{ports.count} {ports.kind} ports of {rate}"
    if ports.count == 1:
        return f"a node's {ports.kind} port of {rate}"
    return f"a node's {several}" if used == ports.count else f"{used} of a node's {several}"


@metric("text")
def node_port_kind(m: Measured) -> Value:
    """InfiniBand, RoCE or Ethernet: the ports of the nodes whose rate is expected."""
    ports = m.job.topology.ports
    return STATED if ports is None else ports.kind


@metric("flag")
def rdma_closed(m: Measured) -> Value:
    """Whether InfiniBand or RoCE ports are up whose devices (/dev/infiniband) the process may not open."""
    ports = ports_of(m.record)
    if ports is None:
        return UNTOLD if m.record else NO_RECORD
    return ports.closed


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
