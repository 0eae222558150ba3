"""The sizes of a transformer and the parameters that follow from them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from diagnose.formulas.model_families import shape_fields


@dataclass(frozen=True)
class ModelShape:
    """A transformer language model as its configuration states it. Sizes are in elements.

    Attributes:
        hidden: width of the residual stream.
        layers: blocks.
        heads: query heads.
        kv_heads: key and value heads; 0 stands for as many as query heads.
        head_dim: width of a head; 0 stands for hidden / heads.
        ffn: inner width of the feed-forward block.
        vocab: rows of the embedding table.
        tied: the head multiplies with the embedding table.
        gated: the feed-forward block has a third matrix, the gate.
        causal: a token attends to itself and earlier ones only.
        lm_head: the model ends in logits over the vocabulary.
        head_transform: a dense layer, a norm and a bias over the vocabulary belong to the head (BERT).
        positions: rows of a learned position table.
        token_types: rows of a token-type table.
        bias: every linear layer of a block and every norm has one.
        qkv_bias: the query, key and value projections alone have one.
        qk_norm: queries and keys are normalised per head.
        qk_norm_whole: queries and keys are normalised over all heads at once (OLMoE).
        query_rank: rank of the queries' low-rank projection; 0 for a full one (multi-head latent attention).
        latent_rank: rank of the latent that keys and values are made of; 0 for full projections.
        rope_dim: of `head_dim`, what carries positions and is shared by all heads of a latent attention.
        value_dim: width of a head's values; 0 stands for `head_dim`.
        attention_sinks: heads have a sink, and attention, router and experts have biases (GPT-OSS).
        norms_per_layer: norms of width `hidden` in a block.
        norms_outside: norms of width `hidden` outside the blocks.
        experts: feed-forward experts of each block; 0 for a dense model.
        experts_per_token: experts that a token is routed to.
        expert_ffn: inner width of an expert.
        dense_layers: blocks at the beginning whose feed-forward part is dense, of width `ffn`.
        shared_experts: experts that every token passes.
        shared_ffn: inner width of a shared expert.
        shared_gated: a gate of its own scales what a shared expert returns.
        window: tokens that a token attends to, itself included, in a block with sliding-window attention; 0 for none.
            Of an encoder's, half lie before the token and half behind it.
        windowed_layers: blocks with sliding-window attention.
        model_type: as transformers names it, such as "llama"; "" if unknown.
    """

    hidden: int
    layers: int
    heads: int
    ffn: int
    vocab: int
    kv_heads: int = 0
    head_dim: int = 0
    tied: bool = False
    gated: bool = True
    causal: bool = True
    lm_head: bool = True
    head_transform: bool = False
    positions: int = 0
    token_types: int = 0
    bias: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    qk_norm_whole: bool = False
    query_rank: int = 0
    latent_rank: int = 0
    rope_dim: int = 0
    value_dim: int = 0
    attention_sinks: bool = False
    norms_per_layer: int = 2
    norms_outside: int = 1
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    shared_experts: int = 0
    shared_ffn: int = 0
    shared_gated: bool = False
    dense_layers: int = 0
    window: int = 0
    windowed_layers: int = 0
    model_type: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kv_heads", self.kv_heads or self.heads)
        object.__setattr__(self, "head_dim", self.head_dim or self.hidden // self.heads)
        object.__setattr__(self, "value_dim", self.value_dim or self.head_dim)

    @classmethod
    def from_config(
        cls, model_type: str, config: Mapping[str, Any], class_name: str | None = None
    ) -> "ModelShape | None":
        """The shape that a transformers configuration describes; None if it does not describe one for certain.

        Args:
            model_type: `config.model_type`, such as "llama".
            config: the configuration's entries; those of the capture record suffice for most known types.
            class_name: the model's class: a language model, a bare or a classifying one. Without it a language model is
                assumed. A classifying head and a pooler are not part of the shape.
        """
        fields = shape_fields(model_type, config, class_name)
        return None if fields is None else cls(**fields)

    @property
    def query_width(self) -> int:
        """Query heads times the width of a head."""
        return self.heads * self.head_dim

    @property
    def attention_weights(self) -> int:
        """Weights of the query, key, value and output projections of one block."""
        if not self.latent_rank:
            return 2 * self.hidden * (self.query_width + self.kv_heads * self.head_dim)
        queries = (self.hidden + self.query_width) * self.query_rank or self.hidden * self.query_width
        unpacked = self.latent_rank * self.heads * (self.head_dim - self.rope_dim + self.value_dim)
        output = self.hidden * self.heads * self.value_dim
        return queries + self.hidden * (self.latent_rank + self.rope_dim) + unpacked + output

    @property
    def expert_weights(self) -> int:
        """Weights of one routed expert."""
        return (3 if self.gated else 2) * self.hidden * self.expert_ffn

    @property
    def mixture_layers(self) -> int:
        """Blocks whose feed-forward part is a mixture of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    def all_feed_forward_weights(self, experts: int) -> int:
        """Weights of all feed-forward parts with that many experts, routers and shared experts included."""
        matrices = (3 if self.gated else 2) * self.hidden
        shared = self.shared_experts * (matrices * self.shared_ffn + self.hidden * self.shared_gated)
        mixture = self.hidden * self.experts + self.expert_weights * experts + shared
        return self.mixture_layers * mixture + (self.layers - self.mixture_layers) * matrices * self.ffn

    def feed_forward_weights(self, experts: int) -> float:
        """The same of one block, in the mean over blocks."""
        return self.all_feed_forward_weights(experts) / self.layers

    @property
    def head_weights(self) -> int:
        """Weights of the language-model head, whether or not the embedding table holds them."""
        transform = self.hidden * self.hidden if self.head_transform else 0
        return self.vocab * self.hidden + transform if self.lm_head else 0

    @property
    def matmul_parameters(self) -> int:
        """Parameters that each token is multiplied with: of a mixture of experts only those it is routed to.

        A tied head counts once, because it is multiplied; the embedding lookup does not count (PaLM, appendix B).
        """
        blocks = self.layers * self.attention_weights + self.all_feed_forward_weights(self.experts_per_token)
        return blocks + self.head_weights

    @property
    def inactive_parameters(self) -> int:
        """Expert weights that a token passes by."""
        return self.mixture_layers * (self.experts - self.experts_per_token) * self.expert_weights

    @property
    def vector_parameters(self) -> int:
        """Norm weights and biases."""
        width = self.query_width + 2 * self.kv_heads * self.head_dim
        norms = (2 if self.bias else 1) * self.hidden * (self.norms_per_layer * self.layers + self.norms_outside)
        per_layer = self.query_rank + self.latent_rank
        per_layer += 2 * self.head_dim if self.qk_norm else 0
        per_layer += self.query_width + self.kv_heads * self.head_dim if self.qk_norm_whole else 0
        per_layer += width if self.bias or self.qkv_bias or self.attention_sinks else 0
        if self.attention_sinks:
            per_layer += self.heads + self.hidden + self.experts * (1 + 2 * self.expert_ffn + self.hidden)
        per_layer += 2 * self.hidden + self.ffn if self.bias else 0
        head = self.vocab + self.hidden * self.bias if self.head_transform and self.lm_head else 0
        return norms + self.layers * per_layer + head

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the token, position and token-type tables."""
        return self.hidden * (self.vocab + self.positions + self.token_types)

    @property
    def factored_values(self) -> int:
        """Values of a moment that is kept as a row and a column of each matrix, and whole for vectors (Adafactor)."""
        keys = self.kv_heads * self.head_dim
        attention = 2 * (self.hidden + self.query_width) + 2 * (self.hidden + keys)
        matrices = 3 if self.gated else 2
        widths = [self.expert_ffn] * self.experts + [self.shared_ffn] * self.shared_experts
        router = self.hidden + self.experts if self.experts else 0
        mixture = router + sum(matrices * (self.hidden + width) for width in widths)
        dense = matrices * (self.hidden + self.ffn)
        feed_forward = self.mixture_layers * mixture + (self.layers - self.mixture_layers) * dense
        tables = [self.vocab, self.positions, self.token_types]
        tables += [self.vocab] if self.lm_head and not self.tied else []
        outside = sum(self.hidden + rows for rows in tables if rows)
        return self.layers * attention + feed_forward + outside + self.vector_parameters

    @property
    def parameters(self) -> int:
        """Every parameter, a tied head counted once."""
        stored_twice = self.vocab * self.hidden if self.tied and self.lm_head else 0
        matrices = self.matmul_parameters + self.inactive_parameters
        return matrices + self.vector_parameters + self.embedding_parameters - stored_twice

    @property
    def active_parameters(self) -> int:
        """Parameters without the expert weights that a token passes by."""
        return self.parameters - self.inactive_parameters

    @property
    def parameters_without_embeddings(self) -> int:
        """`num_parameters(exclude_embeddings=True)` of transformers: without the tables, so without a tied head."""
        return self.parameters - self.embedding_parameters
