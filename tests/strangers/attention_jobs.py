"""Small models on the CPU, their attention in ranges of their own named "attention"."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from profiled_jobs import trace_each
from torch.profiler import record_function

Step = Callable[[], object]


def ranged(module: Any, name: str) -> None:
    """Let the function of a module open the range."""
    function = getattr(module, name)

    def within(*args: Any, **kwargs: Any) -> Any:
        with record_function("attention"):
            return function(*args, **kwargs)

    setattr(module, name, within)


def stepping(model: Any, *, trains: bool = False, **inputs: Any) -> Step:
    model.train(trains)

    def step() -> None:
        with torch.set_grad_enabled(trains):
            output = model(**inputs)[0]
        if trains:
            output.float().sum().backward()

    return step


def tokens(count: int, batch: int = 2) -> Any:
    return torch.randint(1, 100, (batch, count))


def bert(attention: str = "eager", trains: bool = False, length: int = 128, heads: int = 4) -> Step:
    from transformers import BertConfig, BertModel
    from transformers.models.bert import modeling_bert

    ranged(modeling_bert, "eager_attention_forward")
    sizes = {"hidden_size": 64, "num_attention_heads": heads, "num_hidden_layers": 1, "intermediate_size": 128}
    config = BertConfig(**sizes, vocab_size=100, attn_implementation=attention)
    return stepping(BertModel(config), trains=trains, input_ids=tokens(length))


def gpt2(attention: str = "eager", trains: bool = True) -> Step:
    from transformers import GPT2Config, GPT2Model
    from transformers.models.gpt2 import modeling_gpt2

    ranged(modeling_gpt2, "eager_attention_forward")
    config = GPT2Config(n_embd=64, n_head=2, n_layer=1, vocab_size=100, attn_implementation=attention)
    return stepping(GPT2Model(config), trains=trains, input_ids=tokens(64))


def t5() -> Step:
    """Relative positions, no scale, and cross-attention from 16 tokens to 48."""
    from transformers import T5Config, T5Model
    from transformers.models.t5 import modeling_t5

    ranged(modeling_t5, "eager_attention_forward")
    sizes = {"d_model": 64, "d_kv": 16, "num_heads": 4, "d_ff": 128, "num_layers": 1}
    config = T5Config(**sizes, vocab_size=100, attn_implementation="eager")
    return stepping(T5Model(config), input_ids=tokens(48), decoder_input_ids=tokens(16))


def llama() -> Step:
    """Four heads of queries for each of the keys."""
    from transformers import LlamaConfig, LlamaModel
    from transformers.models.llama import modeling_llama

    ranged(modeling_llama, "eager_attention_forward")
    sizes = {"hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 2, "num_hidden_layers": 1}
    config = LlamaConfig(**sizes, intermediate_size=128, vocab_size=100, attn_implementation="eager")
    return stepping(LlamaModel(config), trains=True, input_ids=tokens(64))


def bloom() -> Step:
    """Biases by distance (ALiBi), which baddbmm adds to the scores."""
    from transformers import BloomConfig, BloomModel

    return stepping(BloomModel(BloomConfig(hidden_size=64, n_head=4, n_layer=1, vocab_size=100)), input_ids=tokens(64))


def mixtral() -> Step:
    """A softmax of a router in each layer, beside that of attention."""
    from transformers import MixtralConfig, MixtralModel
    from transformers.models.mixtral import modeling_mixtral

    ranged(modeling_mixtral, "eager_attention_forward")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 1}
    config = MixtralConfig(
        **sizes, intermediate_size=128, num_local_experts=4, vocab_size=100, attn_implementation="eager"
    )
    return stepping(MixtralModel(config), input_ids=tokens(48))


def gpt_oss() -> Step:
    """A sink: a column of the scores that takes attention off all tokens."""
    from transformers import GptOssConfig, GptOssModel
    from transformers.models.gpt_oss import modeling_gpt_oss

    ranged(modeling_gpt_oss, "eager_attention_forward")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 16}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "intermediate_size": 128}
    config = GptOssConfig(**sizes, **experts, num_hidden_layers=1, vocab_size=100, attn_implementation="eager")
    return stepping(GptOssModel(config), input_ids=tokens(48))


def vit() -> Step:
    """197 tokens, an odd number."""
    from transformers import ViTConfig, ViTModel
    from transformers.models.vit import modeling_vit

    ranged(modeling_vit, "eager_attention_forward")
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1, "intermediate_size": 128}
    return stepping(ViTModel(ViTConfig(**sizes, attn_implementation="eager")), pixel_values=torch.randn(1, 3, 224, 224))


def swin() -> Step:
    """Windows of 49 tokens, with relative positions."""
    from transformers import SwinConfig, SwinModel
    from transformers.models.swin import modeling_swin

    ranged(modeling_swin, "eager_attention_forward")
    config = SwinConfig(embed_dim=16, depths=[1, 1], num_heads=[2, 4], image_size=112, attn_implementation="eager")
    return stepping(SwinModel(config), pixel_values=torch.randn(1, 3, 112, 112))


def einsum() -> Step:
    q, k, v = torch.randn(3, 2, 32, 4, 16).unbind()

    def step() -> None:
        with record_function("attention"):
            scores = torch.einsum("bthd,bshd->bhts", q, k) / 4
            torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v)
        (torch.randn(64, 64) @ torch.randn(64, 64)).relu()

    return step


def one_head() -> Step:
    """No batch and no heads: the products are of two matrices."""
    q, k, v = torch.randn(3, 96, 32).unbind()

    def step() -> None:
        with record_function("attention"):
            (q @ k.T * 32**-0.5).softmax(-1) @ v
        torch.randn(64, 64).relu()

    return step


def large_heads() -> Step:
    q, k, v = torch.randn(3, 1, 2, 16, 256).unbind()

    def step() -> None:
        with record_function("attention"):
            (q @ k.mT / 16).softmax(-1) @ v
        torch.randn(64, 64).relu()

    return step


def classifier() -> Step:
    """A softmax over classes, weighed for an expected value."""
    model, values = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)), torch.randn
    return lambda: model(torch.randn(256, 64)).softmax(-1) @ values(10, 4)


def router() -> Step:
    """A dense mixture of experts: each token's experts are weighed by a softmax of the router, behind attention."""
    gate, experts = torch.nn.Linear(64, 8), torch.randn(8, 64, 64)
    q = torch.randn(1, 4, 32, 64)

    def step() -> None:
        x = torch.nn.functional.scaled_dot_product_attention(q, q, q).reshape(128, 64)
        weights = gate(x).softmax(-1)
        outputs = torch.bmm(x.expand(8, -1, -1), experts)
        torch.einsum("te,etd->td", weights, outputs)

    return step


def pooled() -> Step:
    """Additive pooling: a linear layer scores each token, and nothing quadratic is there to fuse."""
    score, x = torch.nn.Linear(64, 1), torch.randn(8, 100, 64)
    return lambda: score(x.tanh()).softmax(1).mT @ x


def fused() -> Step:
    return bert("sdpa")


JOBS = {
    "bert": bert,
    "bert training": lambda: bert(trains=True),
    "bert of 16 tokens": lambda: bert(length=16),
    "gpt2 training": gpt2,
    "t5": t5,
    "llama training": llama,
    "bloom": bloom,
    "mixtral": mixtral,
    "gpt oss": gpt_oss,
    "vit": vit,
    "swin": swin,
    "einsum": einsum,
    "one head": one_head,
    "large heads": large_heads,
    "classifier": classifier,
    "router": router,
    "pooled": pooled,
    "fused": fused,
}

if __name__ == "__main__":
    chosen = sys.argv[2:] or JOBS
    trace_each({name.replace(" ", "-"): JOBS[name] for name in chosen}, steps=3)
