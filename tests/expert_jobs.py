"""Work of a step with a mixture of experts."""

from collections.abc import Callable, Sequence

from kineto import Trace

Work = Callable[[Trace], object]
HIDDEN, EXPERT = 2048, 1408
SMALL_GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_cublas"
GROUPED = "void cutlass::device_kernel<at::cuda::detail::GroupedGemmKernel_bf16>(Params)"
LOADS = (512, 130, 64, 250, 31, 90, 200, 170)


def one_by_one(loads: Sequence[int] = LOADS, layers: int = 8, us: float = 12) -> Work:
    """In each layer every expert multiplies its tokens by itself."""

    def work(job: Trace) -> None:
        for _ in range(layers):
            for tokens in loads:
                job.op("aten::mm", [[tokens, HIDDEN], [HIDDEN, EXPERT]], SMALL_GEMM, us, host_us=60)

    return work


def grouped(layers: int = 8) -> Work:
    """In each layer one grouped product."""
    tokens = sum(LOADS)

    def work(job: Trace) -> None:
        for _ in range(layers):
            job.op("aten::_grouped_mm", [[tokens, HIDDEN], [len(LOADS), HIDDEN, EXPERT], [len(LOADS)]], GROUPED, 60)

    return work
