"""The precision that a matrix kernel computes in, by its name: one ordered table, first match wins.

The type of a tensor does not say it: float products run as TF32 on tensor cores, or in fp32 without them. Libraries
write it differently:

- cuBLAS `nvjet_tst`: inputs, accumulation, result; h half, t bfloat16, s single (as TF32), q e4m3 and r e5m2 for each
  input, o 4-bit. `f32f32_tf32f32_f32` spells the types out. `s1688`, `s16816`: accumulation and instruction shape, TF32
  unless another type is named; `884` is Volta's half.
- `sgemm`, `scudnn`, `simt`, `ffma` and engines with `<float` run without tensor cores.
- Tensile `Cijk_.._BBS_`, `_HHS_`, `_SB_`, `_F8`, `_XF32_`: bf16, half, single, 8-bit and TF32.
- cuDNN's fused attention says f16 for both half types, so it does not say.
"""

import re
from functools import lru_cache

_NVJET = r"nvjet_(sm\d+_)?"
_PRECISIONS = [
    (precision, re.compile(pattern))
    for precision, pattern in (
        ("", r"native_sdpa"),
        ("fp4", rf"{_NVJET}oo|[Ee]2m1|(nv|mx)?[Ff][Pp]4(?!\d)"),
        ("fp8", rf"{_NVJET}[qr][qr]|e4m3|e5m2|E4m3|E5m2|[Ff]p8|FP8|Cijk_.*_[BF]8|f8f8"),
        ("int8", r"imma|s8s8|i8i8|i16832gemm|i8816gemm|gemm_s8|Cijk_.*_I8"),
        ("fp64", rf"{_NVJET}d|dgemm|d884|gemm_f64|Cijk_.*_DB_|<double|dcudnn"),
        ("tf32", rf"tf(loat)?32|{_NVJET}s(?!m\d)|Cijk_.*(_XF32|_X_|_S_MX_B)|xf32"),
        ("bf16", rf"{_NVJET}t|bf16|[Bb][Ff]loat16|Cijk_.*_(B[BS]S|BB)_|bhalf"),
        (
            "fp16",
            rf"{_NVJET}h|f16f16|fp16|(^|_)f16_|_half|half_t|Half|[hs]884|h1688|h16816|hgemm|hcudnn|Cijk_.*_(H[HS]S|HB)_",
        ),
        ("tf32", r"s1688|s16816|fmha_cutlass[FB]_f32"),
        (
            "fp32",
            r"sgemm|simt|ffma|scudnn|f32f32_f32|Cijk_.*_(SB|S_B)_|<float|_engine<float|fft|magma_s|_fp32_|naive_conv.*float",
        ),
    )
]


@lru_cache(maxsize=65536)
def precision(name: str) -> str:
    """One of "bf16", "fp16", "tf32", "fp32", "fp64", "fp8", "fp4" or "int8"; "" when the kernel's name does not say.

    Only for matrix, convolution and attention kernels: types in the names of others are those of their data.
    """
    return next((found for found, pattern in _PRECISIONS if pattern.search(name)), "")


_ELEMENT = re.compile(r"(double|float|c10::BFloat16|c10::Half|__nv_bfloat16|__half|OpaqueType<(\d+)u?>)")
_BYTES = {"double": 8, "float": 4}


@lru_cache(maxsize=65536)
def element_bytes(name: str) -> int:
    """Bytes of an element of the tensor lists that a kernel works on, by the first type its name holds; 0 unknown."""
    found = _ELEMENT.search(name)
    if found is None:
        return 0
    return int(found[2]) if found[2] else _BYTES.get(found[1], 2)
