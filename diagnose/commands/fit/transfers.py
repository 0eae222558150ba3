"""Seconds of a job's collectives when nothing hides them: tensor parallelism, gradients and weights."""

import math

from diagnose.commands.fit.adapters import trained_share
from diagnose.commands.fit.stacks import StackRates
from diagnose.formulas.collectives import latency_and_wire_s, transfer_s, wire_bytes
from diagnose.formulas.size_curve import NETWORK_LATENCY_S, GroupLinks
from diagnose.predict.memory.job import JobPlan

COLLECTIVES_PER_BLOCK = 10
"""Of a tensor-parallel block with sequence parallelism: an all-gather before and a reduce-scatter after attention and
MLP, forward (4) and backward (4), and the gathered inputs once more for the gradients of weights (2): Korthikanti et
al. 2022."""


def tensor_parallel_s(plan: JobPlan, stack: StackRates) -> float:
    """Seconds that a block of a micro-batch spends on tensor-parallel transfers, forward and backward."""
    tp = plan.sharding.tp
    if tp == 1:
        return 0.0
    message = plan.micro_batch_tokens * plan.model.hidden * plan.precision.compute_bytes
    if tp <= plan.gpus_per_node:
        return COLLECTIVES_PER_BLOCK * _inside_node_s(plan, "allgather", message, tp)
    rate = stack.tp_nodes_gbs * 1e9 * plan.gpus_per_node / tp
    return COLLECTIVES_PER_BLOCK * transfer_s("allgather", message, tp, rate)


_BUCKET_BYTES = 25 << 20  # of torch's DDP and, nearly, of Megatron's


def gathers(plan: JobPlan) -> int:
    """Times that a micro-batch gathers each weight: FULL_SHARD for each pass, SHARD_GRAD_OP for the forward pass."""
    return 2 if plan.sharding.zero == 3 else 1 if plan.gathers_once else 0


def shard_collectives(plan: JobPlan) -> int:
    """Collectives of a micro-batch for each block whose state is shared among ranks."""
    sharding = plan.sharding
    return gathers(plan) + (sharding.zero >= 2) if sharding.shards > 1 else 0


_COPY = 2  # reads and writes


def copied_bytes(plan: JobPlan, parameters: float) -> float:
    """Bytes of a step that move what is transferred between tensors and buffers; a pipeline's stages reduce in place.

    DDP and ZeRO-1 and 2 move gradients into buckets and back; FSDP moves gradients into a buffer and gathered weights
    out of one, with each micro-batch.
    """
    if plan.sharding.data_ranks == 1 or plan.sharding.pp > 1:
        return 0.0
    gradients = trained_share(plan) * parameters * plan.precision.gradient_bytes
    weights = parameters * plan.precision.compute_bytes
    moved = gathers(plan) * weights + gradients if gathers(plan) else 2 * gradients
    return _COPY * moved * (plan.accumulation if plan.sharding.zero >= 2 else 1)


_HOOKED = 9  # parameters of a block of Llama


def hooks_s(plan: JobPlan, stack: StackRates, layers: int) -> float:
    """Seconds of the hooks of a stage's parameters under ZeRO-1 and 2, which flatten each gradient as it comes."""
    shares = plan.sharding.shards > 1 and plan.sharding.zero in (1, 2) and not gathers(plan)
    return layers * _HOOKED * stack.hook_s if shares else 0.0


def reduction_s(plan: JobPlan, stack: StackRates, parameters: float) -> float:
    """Seconds of reducing the gradients of a rank's `parameters` once; ranks keep shards of them from ZeRO-1 on.

    FSDP and ZeRO-3 reduce block by block, the others in buckets.
    """
    kind = "allreduce" if plan.sharding.zero == 0 else "reducescatter"
    size = parameters * trained_share(plan) * plan.precision.gradient_bytes
    messages = _shared_units(plan) if plan.sharding.zero >= 2 else max(size / _BUCKET_BYTES, 1.0)
    return messages * _data_parallel_s(plan, stack, kind, size / messages)


def gathering_s(plan: JobPlan, stack: StackRates, parameters: float) -> float:
    """Seconds of gathering the weights of a rank's `parameters` once, block by block, in the type of the products."""
    units = _shared_units(plan)
    return units * _data_parallel_s(plan, stack, "allgather", parameters * plan.precision.compute_bytes / units)


def _shared_units(plan: JobPlan) -> int:
    """Number of units that are gathered at once: each block of the longest stage, and what is in none."""
    return max(plan.layers_per_stage) + 1


def nodes_spanned(plan: JobPlan) -> int:
    """Nodes of a data-parallel group; ranks are ordered tensor, data, pipeline from the innermost."""
    tp, dp = plan.sharding.tp, plan.sharding.data_ranks
    return dp if tp >= plan.gpus_per_node else math.ceil(dp * tp / plan.gpus_per_node)


def _data_parallel_s(plan: JobPlan, stack: StackRates, kind: str, message_bytes: float) -> float:
    """Seconds of a data-parallel collective: groups of a node share its network, each crossing it once."""
    if plan.sharding.data_ranks == 1:
        return 0.0
    nodes = nodes_spanned(plan)
    if nodes == 1:
        return _inside_node_s(plan, kind, message_bytes, plan.sharding.data_ranks)
    of_node = message_bytes * min(plan.sharding.tp, plan.gpus_per_node)
    rate = stack.node_gbs * 1e9 / (1 + nodes / stack.half_nodes)
    return latency_and_wire_s(NETWORK_LATENCY_S, wire_bytes(kind, of_node, nodes), rate)


_LARGE_BYTES = 1 << 28  # of a message that reaches what its links carry
_WITHOUT_LINKS_GBS = 25.0  # an assumption: what PCIe 4.0 x16 reaches
_CROWDED_GBS = 12.5  # the same of a ring of more than two boards, whose switches and sockets they share


def _inside_node_s(plan: JobPlan, kind: str, message_bytes: float, ranks: int) -> float:
    links = GroupLinks(plan.gpu.measured_node, _link_gbs(plan, ranks), ranks)
    gbs = links.bus_gbs(kind, message_bytes) or (_CROWDED_GBS if ranks > 2 else _WITHOUT_LINKS_GBS)
    return transfer_s(kind, message_bytes, ranks, gbs * 1e9)


_BRIDGED = ("PCIe", "PCIE", "NVL-")  # boards that a bridge joins in pairs


def _link_gbs(plan: JobPlan, ranks: int) -> float | None:
    """Rate of a GPU's links to a group of ranks; None if some of them are reached over PCIe alone."""
    joined_in_pairs = any(part in plan.gpu.key for part in _BRIDGED)
    return None if joined_in_pairs and ranks > 2 else plan.gpu.nvlink_one_way_gbs


def group_gbs(plan: JobPlan, ranks: int) -> float:
    """GB/s in one direction of the links that a rank has to the others of its group inside a node."""
    links = GroupLinks(plan.gpu.measured_node, _link_gbs(plan, ranks), ranks)
    return links.bus_gbs("allgather", _LARGE_BYTES) or _WITHOUT_LINKS_GBS


def exposed_s(seconds: float, exposed_share: float, behind_s: float) -> float:
    """Seconds of a transfer that are not hidden behind so much computation."""
    return exposed_share * seconds + max((1 - exposed_share) * seconds - behind_s, 0.0)


def latency_s(plan: JobPlan, stack: StackRates) -> float:
    """Seconds of a tensor-parallel collective whatever its size, beyond launching it."""
    sharding = plan.sharding
    between_nodes = stack.ring_hop_s * max(sharding.tp - plan.gpus_per_node, 0)
    beside_pipeline = stack.pipeline_hop_s * (sharding.tp - 1) if sharding.pp > 1 and plan.nodes > 1 else 0.0
    return between_nodes + beside_pipeline


def shard_latency_s(plan: JobPlan, stack: StackRates) -> float:
    """Seconds of gathering the new weights of a stage's blocks whatever their size: a ring passes each rank."""
    if nodes_spanned(plan) == 1:
        return 0.0
    return stack.ring_hop_s * max(plan.layers_per_stage) * (plan.sharding.data_ranks - 1)
