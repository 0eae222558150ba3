"""Conventions of MFU: what each project counts as model FLOPs, and the peak that it divides by.

Two of them put the same run at 31 % and 43 %, so figures of different tables cannot be compared directly.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from diagnose.formulas.model_flops import Convention

Peak = Literal["half", "own"]


class MfuConvention(msgspec.Struct, frozen=True):
    """One project's MFU convention.

    Attributes:
        flops: its model FLOPs of a token, as `flops_per_token` names them; none of them counts what is computed again.
        peak: "half" divides by the dense bf16 peak whatever runs, "own" by the dense peak of the precision that runs.
        source: where the project defines its count.
    """

    flops: Convention
    peak: Peak
    source: str


MFU_AS: Mapping[str, MfuConvention] = {
    "megatron": MfuConvention("causal", "half", "Megatron-LM and Megatron-Bridge, num_floating_point_operations"),
    "nanotron": MfuConvention("6n-attention", "half", "the benchmark table of the Ultra-Scale Playbook"),
    "llm-foundry": MfuConvention("6n-attention", "own", "llm-foundry, scripts/train/benchmarking"),
    "palm": MfuConvention("palm", "half", "Chowdhery et al. 2022 (PaLM), appendix B; torchtitan"),
    "hf": MfuConvention("hf", "half", "transformers, PreTrainedModel.floating_point_ops"),
}
"""By the names that `--mfu-as` takes."""
