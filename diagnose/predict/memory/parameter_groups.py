"""Parameters of a rank in groups that are held alike: frozen or trained, adapters, experts with shards of their own.

ZeRO divides each among the ranks that hold the same: of an expert these are fewer than of the other weights.
"""

from dataclasses import dataclass

from diagnose.predict.memory.adapters import PARAMETER_BYTES, QUANTIZED_BYTES, Adapters, adapter_parameters
from diagnose.predict.memory.job import JobPlan
from diagnose.predict.memory.precision import PRECISIONS


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters of a rank before ZeRO divides them, and bytes of each one.

    Attributes:
        parameters: how many.
        shards: ranks among which ZeRO divides them.
        weight_bytes: of a weight as the model holds it.
        gradient_bytes: of its gradient; 0 if it is frozen, as are the two others.
        master_bytes: of the optimizer's own copy.
        state_bytes: of the optimizer's states.
    """

    parameters: float
    shards: int
    weight_bytes: float
    gradient_bytes: float = 0.0
    master_bytes: float = 0.0
    state_bytes: float = 0.0


def parameter_groups(plan: JobPlan, stage: int, held: float, states: float) -> tuple[ParameterGroup, ...]:
    """The groups of a pipeline stage; the model's own weights first.

    Args:
        plan: the job.
        stage: of the pipeline.
        held: parameters of the model on a rank of the stage.
        states: bytes that the optimizer keeps of each parameter.
    """
    routed = _routed_parameters(plan, stage)
    sharding, precision = plan.sharding, plan.precision
    counts = [(held - routed, sharding.shards), (routed, sharding.expert_shards)]
    if plan.adapters:
        weight = _frozen_bytes(plan, plan.adapters, stage, held)
        frozen = [ParameterGroup(count, shards, weight) for count, shards in counts]
        return (*frozen, _adapters(plan, plan.adapters, stage))
    sums_up = precision.gradient_bytes > precision.weight_bytes and not plan.ledger.fuses_gradients
    gradient = precision.gradient_bytes + (precision.weight_bytes if sums_up else 0)
    master = precision.master_bytes
    return tuple(
        ParameterGroup(count, shards, precision.weight_bytes, gradient, master, states) for count, shards in counts
    )


def _routed_parameters(plan: JobPlan, stage: int) -> float:
    """Parameters of routed experts on a rank; none if their states are divided like the others'."""
    model, sharding = plan.model, plan.sharding
    if sharding.ep == 1:
        return 0.0
    routed = model.mixture_layers * model.experts * model.expert_weights
    return routed * plan.layers_per_stage[stage] / model.layers / sharding.expert_cut


def _adapters(plan: JobPlan, adapters: Adapters, stage: int) -> ParameterGroup:
    """The adapters of the stage, trained in fp32 whatever the weights are."""
    sharding, whole = plan.sharding, PRECISIONS["fp32"]
    count = plan.layers_per_stage[stage] * adapter_parameters(plan.model, adapters) / sharding.tp
    states = plan.optimizer_states.state_bytes(whole, 1 / adapters.rank)
    return ParameterGroup(count, sharding.shards, PARAMETER_BYTES, whole.gradient_bytes, 0.0, states)


def _frozen_bytes(plan: JobPlan, adapters: Adapters, stage: int, held: float) -> float:
    """Mean bytes of a frozen weight: 4 bits in the blocks' matrices if they are quantized, else as the model holds it.

    bitsandbytes quantizes the linear layers of the blocks; tables, head and norms stay as they are.
    """
    width = plan.precision.weight_bytes
    if not adapters.quantized:
        return width
    model = plan.model
    block = (model.attention_weights + model.feed_forward_weights(model.experts)) / plan.sharding.tp
    share = min(plan.layers_per_stage[stage] * block / held, 1.0)
    return share * QUANTIZED_BYTES + (1 - share) * width
