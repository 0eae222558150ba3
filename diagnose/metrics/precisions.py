"""The precision that matrix products run in, what casting to it costs, and how near its ceiling they are."""

from diagnose.facts import STEP, Unknown, another_run, nothing_helps
from diagnose.metrics import groups, remedy_groups
from diagnose.metrics.model_work import MIN_COVERED
from diagnose.metrics.patterns import share_of
from diagnose.metrics.registry import NO_SHAPES, Measured, Value, metric
from diagnose.metrics.setup import missing

_HALF = ("bf16", "fp16")
_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@metric("share", STEP)
def tf32_share(m: Measured) -> Value:
    """Matrix products in TF32, told by kernel name."""
    return share_of(m, groups.NAMES["tf32-products"](m))


@metric("share", STEP)
def fp32_convolution_share(m: Measured) -> Value:
    """Convolutions in fp32 without tensor cores, as far as cuDNN's kernel names tell."""
    return share_of(m, remedy_groups.fp32_convolutions(m))


@metric("share", STEP)
def half_product_share(m: Measured) -> Value:
    """Matrix products in bf16 or fp16, told by kernel name."""
    return share_of(m, groups.NAMES["half-products"](m))


@metric("share", STEP)
def weight_cast_share(m: Measured) -> Value:
    """Casts between fp32 and half precision of matrices that are arguments of products: weights and their gradients."""
    return share_of(m, remedy_groups.weight_casts(m))


@metric("text", needs_gpu=False)
def weights_precision(m: Measured) -> Value:
    """What most of the model's parameters are stored in: fp32, bf16 or fp16."""
    dtypes = m.record.get("model.dtypes")
    if not isinstance(dtypes, dict) or not dtypes:
        return missing(m)
    most = str(max(dtypes, key=lambda name: dtypes[name]))
    return _SHORT.get(most, most)


@metric("share", "the fastest bf16 product measured on such a GPU")
def achievable_matmul_share(m: Measured) -> Value:
    """FLOP/s inside bf16 and fp16 matrix-product kernels over those of the fastest product measured on such a GPU."""
    best = m.device.achievable_matrix_flops
    if best is None:
        return Unknown(
            m.device.achievable_matrix_flops_source,
            another_run("measure it on this GPU: mamf-finder of ml-engineering"),
        )
    rows = [row for row in m.roofline.rows if row.family == "gemm" and row.precision in _HALF]
    if not rows:
        return Unknown("no matrix product ran in half precision", nothing_helps("the model has none"))
    sized_ns = sum(row.sized_ns for row in rows)
    if not sized_ns or sized_ns < MIN_COVERED * sum(row.ns for row in rows):
        return NO_SHAPES
    return min(sum(row.flops or 0.0 for row in rows) / sized_ns * 1e9 / best, 1.0)
