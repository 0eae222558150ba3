"""The precision that kernels compute in, tensor cores or not, and what casting to it costs."""

import numpy as np

from diagnose.facts import STEP, Unknown, Value, nothing_helps
from diagnose.metrics.kernel_groups.families import weight_unpacking
from diagnose.metrics.kernel_groups.products import (
    fp32_convolutions,
    fp32_products,
    half_products,
    tf32_products,
    weight_casts,
)
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric

_SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


@metric("share", STEP)
def tf32_share(m: Measured) -> Value:
    """Matrix products in TF32, by kernel name."""
    return m.share_of(tf32_products(m))


@metric("share", STEP)
def fp32_convolution_share(m: Measured) -> Value:
    """Convolutions in fp32 without tensor cores, as far as cuDNN's kernel names show it."""
    return m.share_of(fp32_convolutions(m))


@metric("share", STEP)
def half_product_share(m: Measured) -> Value:
    """Matrix products in bf16 or fp16, by kernel name."""
    return m.share_of(half_products(m))


@metric("share", STEP)
def weight_cast_share(m: Measured) -> Value:
    """Casts between fp32 and half precision of matrices that are arguments of products: weights and their gradients."""
    return m.share_of(weight_casts(m))


@metric("share", STEP)
def weight_unpacking_share(m: Measured) -> Value:
    """Kernels that unpack weights of 4 or 8 bits for a product, as those of bitsandbytes do."""
    return m.share_of(weight_unpacking(m))


@metric("text", needs_gpu=False)
def weights_precision(m: Measured) -> Value:
    """The data type of most of the model's parameters: fp32, bf16 or fp16."""
    dtypes = m.record.get("model.dtypes")
    if not isinstance(dtypes, dict) or not dtypes:
        return m.unrecorded
    most = str(max(dtypes, key=lambda name: dtypes[name]))
    return _SHORT.get(most, most)


@metric("share", STEP)
def fp32_simt_share(m: Measured) -> Value:
    """Matrix products in fp32 without tensor cores, by kernel name."""
    return m.share_of(fp32_products(m))


@metric("share", "the time of matrix-product and attention kernels")
def tensor_core_share(m: Measured) -> Value:
    """Part of the matrix-product and attention time that runs on tensor cores, by kernel name."""
    kinds = m.timeline.gpu.kinds
    known = np.array([k.family in ("gemm", "attention") and k.tensor_core is not None for k in kinds], bool)
    yes = np.array([bool(k.tensor_core) for k in kinds], bool)
    rows = m.kernels & known[m.timeline.gpu.kind]
    total = int(m.own_time[rows].sum())
    if not total:
        return Unknown("no matrix-product or attention kernel whose name tells", nothing_helps("the model has none"))
    return int(m.own_time[rows & yes[m.timeline.gpu.kind]].sum()) / total
