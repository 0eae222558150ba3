"""Two models by name, as their published configurations state them."""

from diagnose.formulas.model import ModelShape

NAMED_MODELS = {
    "Llama-3.2-1B": ModelShape(
        hidden=2048, layers=16, heads=32, kv_heads=8, head_dim=64, ffn=8192, vocab=128256, tied=True
    ),
    "OPT-1.3B": ModelShape(
        hidden=2048, layers=24, heads=32, ffn=8192, vocab=50272, positions=2050, tied=True, gated=False, bias=True
    ),
}
