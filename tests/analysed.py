"""Builder traces taken through the analysis, up to the stage a test asks about."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kineto

from diagnose.attribution.attribution import Attribution, attribute
from diagnose.facts import Facts
from diagnose.metrics import Measured, measure
from diagnose.metrics.settings import Settings
from diagnose.ranks import Job, JobView, RankDigest, digest_of, join
from diagnose.timeline import Timeline, timeline_of
from diagnose.trace import Trace, read

Built = kineto.Trace | dict[str, Any]
GEMM = "nvjet_tst_128x256_64x4_1x2_h_bz_TNT"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
COMM = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
FOREACH = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<BinaryOpListAlphaFunctor<float, 2>>()"
FUSED = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>()"
SOFTMAX = "void softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 11, false, false>(c10::BFloat16*)"
US, MS = 1_000, 1_000_000


def content(built: Built) -> dict[str, Any]:
    return built.json() if isinstance(built, kineto.Trace) else built


def trace(built: Built) -> Trace:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(content(built)), encoding="utf-8")
        return read(path)


def timeline(built: Built, rank: int = 0) -> Timeline:
    return timeline_of(trace(built), rank)


def attribution(built: Built) -> Attribution:
    return attribute(timeline(built))


def causes(built: Built) -> dict[str, int]:
    """Nanoseconds of every cause that holds any."""
    return {cause: ns for cause, ns in attribution(built).ns().items() if ns}


def measured(built: Built, **settings: float) -> Measured:
    line = timeline(built)
    return Measured(line, attribute(line), JobView(), Settings(**settings))


def facts(built: Built, **settings: float) -> Facts:
    return measure(measured(built, **settings))


def digest(built: Built, rank: int = 0) -> RankDigest:
    line = timeline(built, rank)
    return digest_of(line, attribute(line))


def job(ranks: Sequence[Built]) -> Job:
    return join([digest(built, rank) for rank, built in enumerate(ranks)])


def without(built: Built, *categories: str) -> dict[str, Any]:
    """The trace without the events of some categories."""
    found = content(built)
    return found | {"traceEvents": [e for e in found["traceEvents"] if e.get("cat") not in categories]}


def capture_failed(built: Built) -> dict[str, Any]:
    """The trace as it is when the launches were recorded and the GPU's activity was not."""
    return without(built, "kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation")


def edited(built: Built, category: str, number: int, **args: Any) -> dict[str, Any]:
    """The trace with args of the `number`-th event of a category changed; None takes one away."""
    found = json.loads(json.dumps(content(built)))
    event = [e for e in found["traceEvents"] if e.get("cat") == category][number]
    event["args"] = {k: v for k, v in (event["args"] | args).items() if v is not None}
    return found
