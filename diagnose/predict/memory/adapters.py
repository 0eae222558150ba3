"""Low-rank adapters on frozen weights (LoRA, QLoRA): which matrices have them, and what they and the weights hold."""

from dataclasses import dataclass

from diagnose.errors import WrongUsage
from diagnose.formulas.model import ModelShape

ALL_LINEAR = "all-linear"
USUAL_TARGETS = ("q_proj", "v_proj")
"""Of peft for Llama, Mistral, Mixtral, Qwen, Gemma and OPT where none are named."""
PARAMETER_BYTES = 4  # peft keeps adapters in fp32 where the model is in 16 bits
QUANTIZED_BYTES = 0.5 + 0.127 / 8  # NF4 with doubly quantized scales: 0.127 bit for each weight (Dettmers et al. 2023)


@dataclass(frozen=True)
class Adapters:
    """Low-rank adapters that are trained while all of the model's weights are frozen.

    Attributes:
        rank: of each adapter.
        targets: names of the matrices that have one, as peft names them, or "all-linear".
        quantized: the blocks' frozen matrices are kept in 4 bits (QLoRA).
    """

    rank: int
    targets: tuple[str, ...] = USUAL_TARGETS
    quantized: bool = False


@dataclass(frozen=True)
class Matrix:
    """A matrix of the blocks: its width on both sides, and how many of it a block has in the mean over blocks."""

    inputs: int
    outputs: int
    of_block: float
    routed: bool = False


def matrices(model: ModelShape) -> dict[str, Matrix]:
    """The matrices of the blocks by the names that Llama's and DeepSeek's have in transformers."""
    return _attention(model) | _feed_forward(model)


def _attention(model: ModelShape) -> dict[str, Matrix]:
    hidden, width, keys = model.hidden, model.query_width, model.kv_heads * model.head_dim
    if not model.latent_rank:
        return {
            "q_proj": Matrix(hidden, width, 1),
            "k_proj": Matrix(hidden, keys, 1),
            "v_proj": Matrix(hidden, keys, 1),
            "o_proj": Matrix(width, hidden, 1),
        }
    ranks = model.query_rank, model.latent_rank
    whole = {"q_proj": Matrix(hidden, width, 1)}
    queries = {"q_a_proj": Matrix(hidden, ranks[0], 1), "q_b_proj": Matrix(ranks[0], width, 1)}
    unpacked = model.heads * (model.head_dim - model.rope_dim + model.value_dim)
    return (queries if ranks[0] else whole) | {
        "kv_a_proj_with_mqa": Matrix(hidden, ranks[1] + model.rope_dim, 1),
        "kv_b_proj": Matrix(ranks[1], unpacked, 1),
        "o_proj": Matrix(model.heads * model.value_dim, hidden, 1),
    }


def _feed_forward(model: ModelShape) -> dict[str, Matrix]:
    """Projections of a dense block; of a mixture those of the routed experts."""
    width, of_block = (model.expert_ffn, model.experts) if model.experts else (model.ffn, 1)
    count, routed = of_block * (model.mixture_layers or model.layers) / model.layers, bool(model.experts)
    into = Matrix(model.hidden, width, count, routed)
    gate = {"gate_proj": into} if model.gated else {}
    return gate | {"up_proj": into, "down_proj": Matrix(width, model.hidden, count, routed)}


def adapted(model: ModelShape, adapters: Adapters | None) -> dict[str, Matrix]:
    """The matrices that have an adapter; none without adapters."""
    known = matrices(model)
    if adapters is None or adapters.targets == (ALL_LINEAR,):
        return {} if adapters is None else known
    return {name: known[name] for name in adapters.targets}


def check_adapters(model: ModelShape, adapters: Adapters | None) -> None:
    """Refuse adapters of matrices that the model does not have.

    Raises:
        WrongUsage: a target is none of its matrices; the message names them.
    """
    known = matrices(model)
    if adapters is None or adapters.targets == (ALL_LINEAR,):
        return
    if unknown := [name for name in adapters.targets if name not in known]:
        do = f"use {ALL_LINEAR}, or some of {', '.join(known)}"
        raise WrongUsage("the model has no such matrix to adapt", where=", ".join(unknown), do=do)


def adapter_parameters(model: ModelShape, adapters: Adapters | None) -> float:
    """Parameters of the adapters in a block, in the mean over blocks."""
    if adapters is None:
        return 0.0
    return sum(adapters.rank * (m.inputs + m.outputs) * m.of_block for m in adapted(model, adapters).values())


def trained_parameters(model: ModelShape, adapters: Adapters | None) -> float:
    """Parameters that training changes: those of the adapters, or all where there are none."""
    return model.layers * adapter_parameters(model, adapters) if adapters else model.parameters


def kept_input_bytes(model: ModelShape, adapters: Adapters | None) -> float:
    """Bytes of the adapters' inputs that a block keeps for each token: each adapter casts its input to fp32 itself."""
    share = model.experts_per_token / model.experts if model.experts else 1.0
    kept = adapted(model, adapters).values()
    return PARAMETER_BYTES * sum(m.inputs * m.of_block * (share if m.routed else 1.0) for m in kept)
