"""One-kernel jobs, and their roofline on the builder's device."""

from typing import Any

from analysed import timeline
from kineto import Trace

from diagnose.hardware import resolve
from diagnose.roofline import Roofline, roofline_of
from diagnose.roofline.rows import RooflineRow

H100, HBM = 989.4e12, 3352e9  # dense bf16 and memory bandwidth of the builder's device
FLASH = "void pytorch_flash::flash_{}_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, cutlass::bfloat16_t>>(Params)"
CONVOLVE = "sm80_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_kernel_cudnn"
TO_NHWC = "void cudnn::ops::nchwToNhwcKernel<__nv_bfloat16, __nv_bfloat16, float, false, true>(Params)"
SPLIT_K = "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, true>(Params)"
TF32 = "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x32_cublas"
SGEMM = "ampere_sgemm_128x64_nn"
LARGE = [[7168, 2048], [2048, 2048]]  # 896 FLOP/B, above the ridge of 295
LARGE_FLOPS, LARGE_BYTES = 60_129_542_144, 67_108_864
FLAT = [[128256, 256], [256, 2048]]  # 227 FLOP/B, below it
LIST = "TensorList"
LISTS = [[[100, 10], [24]], [[100, 10], [24]]]


def roofline(built: Any) -> Roofline:
    line = timeline(built)
    return roofline_of(line, resolve(line.device_properties, None))


def one(name: str, dims: Any, kernel: Any, us: float = 100, **more: Any) -> Trace:
    job = Trace(gpu=more.pop("gpu", "NVIDIA H100 80GB HBM3"))
    with job.step():
        job.op(name, dims, kernel, us, **more)
    return job


def row(found: Roofline, family: str, precision: str | None = None) -> RooflineRow:
    rows = [r for r in found.rows if r.family == family and precision in (None, r.precision)]
    assert len(rows) == 1, found.rows
    return rows[0]
