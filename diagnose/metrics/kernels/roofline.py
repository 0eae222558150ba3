"""Kernels against the roofline of their device."""

import numpy as np

from diagnose.facts import STEP, Unknown, Value, analysis_option, capture_setting, nothing_helps
from diagnose.formulas import share
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.unknowns import NO_SHAPES

KERNEL_TIME = "kernel time without collectives and copies"


def _unjudged(m: Measured) -> Unknown | None:
    """The reason why no kernel can be compared with the roofline; None if some can."""
    if not m.roofline.sized_share:
        return NO_SHAPES
    if m.device.hbm_bytes_per_s is None:
        name = m.timeline.device_name or "without a name"
        return Unknown(
            f"the memory bandwidth of the GPU ({name}) is not known", analysis_option("--peak-tflops and --hbm-gbs")
        )
    return None


@metric("share", KERNEL_TIME)
def roofline_sized_share(m: Measured) -> Value:
    """Time of the kernels whose operator's FLOPs and bytes are known from recorded shapes."""
    return m.roofline.sized_share


@metric("share", KERNEL_TIME)
def roofline_judged_share(m: Measured) -> Value:
    """Time of the kernels that are classed as compute- or memory-bound by FLOPs and bytes, not by their kind."""
    return m.roofline.judged_share


@metric("share", STEP)
def above_roof_share(m: Measured) -> Value:
    """Kernel time above max(FLOPs / peak, bytes / bandwidth), of the kernels with known cost; less is possible only by
    doing less work.
    """
    return _unjudged(m) or m.attribution.share(np.nansum(m.roofline.above_roof_ns))


@metric("share", STEP)
def low_intensity_matmul_share(m: Measured) -> Value:
    """Matrix-product kernels whose FLOPs per byte are below the ridge of the precision they ran in: memory bounds
    them.
    """
    r, matmul = m.roofline, m.timeline.gpu.of_family("gemm")
    low = matmul & r.class_.are("memory")
    return _unjudged(m) or m.attribution.share(r.ns[low].sum())


@metric("share", KERNEL_TIME)
def under_filled_share(m: Measured) -> Value:
    """Kernels of 10 us or longer that reach less than half of the roof with fewer blocks than the GPU has
    multiprocessors.
    """
    gpu, r = m.timeline.gpu, m.roofline
    if np.isnan(m.timeline.trace.blocks_per_sm[gpu.row]).all():
        return Unknown("the trace has no launch grids", capture_setting("a PyTorch that records blocks per SM"))
    return _unjudged(m) or share(r.ns[r.bound.are("under-filled")].sum(), r.ns.sum()) or 0.0


@metric("flops_per_s")
def matmul_flops_per_s(m: Measured) -> Value:
    """FLOP/s reached inside matrix-product kernels with known cost, those of convolutions left out."""
    rows = [row for row in m.roofline.rows if row.family == "gemm" and not row.direction]
    flops, ns = sum(row.flops or 0.0 for row in rows), sum(row.sized_ns for row in rows)
    if not rows:
        return Unknown("no matrix-product kernel ran", nothing_helps("the model has none"))
    return flops / ns * 1e9 if ns else NO_SHAPES
