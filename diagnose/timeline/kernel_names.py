"""Kernel names to kinds: one ordered table, first match wins.

Template arguments mislead (`fbgemm` contains "gemm", routing kernels carry `cutlass::bfloat16_t`), so ATen kernels are
matched by a table of their own before libraries are. Name prefixes such as `ampere_` name the code generation, not
the GPU.
"""

import re
from functools import lru_cache
from typing import NamedTuple


class Kind(NamedTuple):
    """What a kernel does. `tensor_core` and `dtype` are None when the name does not say."""

    family: str
    sub: str
    tensor_core: bool | None = None
    dtype: str | None = None


COMPUTE_FAMILIES = frozenset({"gemm", "conv", "attention"})
COMMUNICATION = Kind("comm", "collective")

_COMMUNICATION = re.compile(
    r"^(void )?(nccl|rccl|msccl|nvshmem)"
    r"|nccl(Dev|Symk(Dev)?|SymDev)?_?Kernel|rccl|mscclKernel|mscclpp|nvshmem|(one|two)_shot_all_reduce"
    r"|cross_device_reduce|multimem_(all|one|reduce)|all_reduce_kernel|all_gather_kernel|deep_ep::|dpsk::ep::"
    r"|mtia_ccp|quickreduce"
)

_ATEN = [
    (Kind(family, sub, False), re.compile(pattern))
    for family, sub, pattern in (
        ("optimizer", "fused", r"FusedAdam|FusedSgd|FusedAdagrad|fused_(adam|sgd)"),
        ("optimizer", "foreach", r"multi_tensor_apply_kernel"),
        (
            "norm",
            "norm",
            r"layer_norm|LayerNorm|rms_norm|RMSNorm|RowwiseMoments|GammaBeta|GroupNorm|batch_norm"
            r"|cuComputeGradInput|cuComputePartGradGammaBeta",
        ),
        ("loss", "nll", r"nll_loss|cross_entropy"),
        ("softmax", "softmax", r"[sS]oft_?[mM]ax"),
        (
            "embedding",
            "index",
            r"embedding|indexSelect|vectorized_gather|index_elementwise|indexing_backward|gather|scatter|index_put"
            r"|compute_grad_weight|krn_partials|sum_and_scatter|index_copy|indexFunc",
        ),
        ("dropout", "rng", r"fused_dropout|dropout|philox|distribution_"),
        ("activation", "act", r"[Gg]elu|silu|relu|threshold|sigmoid|tanh_backward|hardswish|mish"),
        (
            "copy",
            "copy",
            r"direct_copy_kernel|bfloat16_copy|float8_copy|CatArrayBatchedCopy|copy_device_to_device|FillFunctor"
            r"|transpose_readWrite|bfloat16tofloat32_copy|LoadWithCast.*StoreWithCast.*copy",
        ),
        ("pool", "pool", r"pool|upsample|interpolate"),
        ("conv", "depthwise", r"conv_depthwise|im2col|col2im|slow_conv"),
        ("sort", "sort", r"sort|topk|radix|bitonic|scan|cum(sum|prod)|nonzero|unique"),
        ("reduce", "reduce", r"reduce_kernel|lpnorm|amax|multi_tensor_l2norm|dot_kernel"),
        ("elementwise", "elementwise", r"elementwise|triu_tril|arange|tril|triu|masked|where|range_factor"),
    )
]

_LIBRARIES = [
    (Kind(family, sub, tensor_core, dtype), re.compile(pattern))
    for family, sub, tensor_core, dtype, pattern in (
        (
            "attention",
            "bwd",
            True,
            None,
            r"flash_bwd|FlashAttnBwd|FlashAttentionBackward|_flash_bprop|fmha_cutlassB|fmha_bwd|attn_bwd"
            r"|_bwd_kernel_d[kq]|bwd_preprocess_do_o|aiter::fmha_bwd|flash::.*bwd|sdpa.*bprop"
            r"|triton_tem_fused_.*(flex_attention_backward|attention_backward)",
        ),
        (
            "attention",
            "fwd",
            True,
            None,
            r"flash_fwd|FlashAttnFwd|_flash_fprop|fmha_cutlassF|fmha_fwd|attn_fwd|fmhaSm\d+|Fmha|unified_attention"
            r"|paged_attention|flex_attention|splitkv|sdpa.*fprop|cudnn_generated_fort_native_sdpa|flash_attn"
            r"|flash::prepare_varlen",
        ),
        (
            "embedding",
            "recsys",
            False,
            None,
            r"fbgemm_gpu::|split_embedding|permute_pooled_embs|linearize_index|bounds_check_indices|jagged|recat_copy",
        ),
        (
            "gemm",
            "splitk_aux",
            False,
            None,
            r"splitK_?reduce|SplitKreduce|ReduceSplitK|scal_kernel<|epilogue::impl::globalKernel|PostGSU"
            r"|cublasLt::epilogue",
        ),
        ("copy", "layout", False, None, r"nchwToNhwc|nhwcToNchw|nchwAddPadding|tensorTransform|SubTensorOpWith"),
        ("norm", "norm", False, None, r"cudnn::bn_|batch_?norm|MIOpenBatchNorm"),
        (
            "conv",
            "conv",
            None,
            None,
            r"conv(2d|3d|olve|_depthwise)|fprop|dgrad|wgrad|winograd|ImplicitGemm|implicit_(convolve_)?s?gemm|scudnn"
            r"|cudnn::(detail|cnn|ops|engines)|cask_cudnn|hcudnn|(884|1688|16816)cudnn|MIOpen|miopen|naive_conv|igemm_"
            r"|ck16tensor_operation.*(conv|bwd_weight|bwd_data)|ck::tensor_operation.*(conv|bwd_weight|bwd_data)",
        ),
        (
            "gemm",
            "fp32_simt",
            False,
            "fp32",
            r"simt_sgemm|(^|[^a-z0-9])sgemm|^(volta|ampere|turing|maxwell)_sgemm|magma_sgemm|_ffma_"
            r"|sm\d+_xmma_gemm_f32f32_f32f32_f32",
        ),
        ("gemm", "fp64", True, "fp64", r"dgemm|d884gemm|xmma_gemm_f64|tensorop_d884"),
        (
            "gemm",
            "fp8",
            True,
            "fp8",
            r"(xmma_gemm|nvjet|cutlass|gemm|bmm)[a-zA-Z0-9_:<]*?(e4m3|e5m2|E4m3|E2m1)|nvjet_(sm\d+_)?([qr][qr]|oo)"
            r"|Cijk_.*_F8|fp8_gemm|scaled_mm",
        ),
        (
            "gemm",
            "tf32",
            True,
            "tf32",
            r"tf32|(tensorop_)s1688gemm_\d|(tensorop_)s1688(gemm)?_(tf32|\d)|s1688tf32|s16816tf32|Cijk_.*_XF32"
            r"|Cijk_.*_X_",
        ),
        (
            "gemm",
            "bf16",
            True,
            "bf16",
            r"bf16|bfloat16.*gem[mv]|nvjet_(sm\d+_)?t[a-z]{2}_|Cijk_.*_B[BS]S_|gemm.*__nv_bfloat16|gemv.*bfloat16",
        ),
        (
            "gemm",
            "fp16",
            True,
            "fp16",
            r"(xmma_gemm|cutlass|gemm|tensorop)[a-zA-Z0-9_:]*f16|s?h?884gemm|h1688gemm|h16816gemm|fp16_s\d+gemm"
            r"|nvjet_(sm\d+_)?h[a-z]{2}_|hgemm|Cijk_.*_H[HS]S_|gem[mv].*__half",
        ),
        (
            "gemm",
            "other",
            None,
            None,
            r"nvjet|Cijk_|xmma_gemm|cutlass.*(gemm|Gemm|GEMM)|^(void )?gem[mv]|gemmk1_kernel|gemmSN|gemv[0-9NT]|matmul"
            r"|wgmma|triton_tem_fused_.*mm|triton_mm|_mm_kernel|grouped_gemm|^bmm_|cublas|^XXT_kernel|^ba_plus_cAA_kernel",
        ),
        (
            "optimizer",
            "fused",
            False,
            None,
            r"multi_tensor_apply_kernel.*(Adam|LAMB|Sgd|SGD)|AdamFunctor|kOptimizer|kPreconditionOptimizer"
            r"|_fused_adam|adamw?_kernel|muon",
        ),
        ("optimizer", "foreach", False, None, r"multi_tensor_apply"),
        ("loss", "cross_entropy", False, None, r"cross_entropy|nll_loss|CrossEntropy|ClassNLL|jsd_kernel|kldiv"),
        (
            "norm",
            "norm",
            False,
            None,
            r"rms_?norm|[Rr]ms_?[Nn]orm|Rmsnorm|layer_?norm|LayerNorm|bn_(fw|bw)|group_?norm|ln_(fwd|bwd)",
        ),
        ("rope", "rope", False, None, r"rope|rotary"),
        ("activation", "glu", False, None, r"swiglu|geglu|silu_and_mul|act_and_mul|gelu|silu|relu"),
        ("inductor", "template", True, None, r"^triton_tem_"),
        ("inductor", "pointwise", False, None, r"^triton_poi_"),
        ("inductor", "reduction", False, None, r"^triton_(red|per|spl)_"),
        ("inductor", "foreach", False, None, r"^triton_for_"),
        ("inductor", "other", None, None, r"^triton_(unk_|__)"),
        ("softmax", "softmax", False, None, r"[sS]oft_?[mM]ax"),
        ("sort", "sort", False, None, r"cub::|thrust|rocprim|DeviceScan|[sS]ort|topk|radix"),
        (
            "copy",
            "copy",
            False,
            None,
            r"[mM]emcpy|[mM]emset|__amd_rocclr_|CatArray|copy_kernel|transpose|reshape_and_cache|permute",
        ),
        ("quant", "quant", False, None, r"quant|_to_fp8|cast_|dequant"),
        ("elementwise", "elementwise", False, None, r"element_mul_kernel|elementwise|vectorized"),
        ("moe", "routing", False, None, r"routing|moe::|_topk_|histogram"),
        ("triton", "user", None, None, r"^_?[A-Za-z0-9_]+$"),
    )
]

# Inductor names pointwise and reduction kernels after all they fuse, the arguments of products included.
_GENERATED = re.compile(r"triton_(poi|red|per|spl|for)_")
_AFTER_MATRICES = [row for row in _LIBRARIES if row[0].family not in COMPUTE_FAMILIES]


@lru_cache(maxsize=65536)
def classify(name: str) -> Kind:
    """The kind of the kernel called `name`; `Kind("other", "other")` when no row matches."""
    if _COMMUNICATION.search(name):
        return COMMUNICATION
    if "at::native" in name:
        return next((kind for kind, pattern in _ATEN if pattern.search(name)), Kind("aten_other", "other", False))
    rows = _AFTER_MATRICES if _GENERATED.match(name) else _LIBRARIES
    return next((kind for kind, pattern in rows if pattern.search(name)), Kind("other", "other"))


def bound_by(kind: Kind) -> str:
    """`compute` for matrix, convolution and attention kernels, `memory` for all others.

    The default when no shapes say better: it cannot tell a memory-bound matrix product from a compute-bound one.
    """
    if kind.family == "inductor" and kind.sub == "template":
        return "compute"
    return "compute" if kind.family in COMPUTE_FAMILIES else "memory"
