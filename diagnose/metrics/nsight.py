"""Facts that an export of Nsight Systems cannot give, in its own terms: the reason, and what to do instead."""

from collections.abc import Mapping

from diagnose.facts import Capture, Unknown, Value, analysis_option, another_run, capture_setting
from diagnose.trace import Trace

_BY_TORCH = capture_setting("diagnose run, without nsys: torch's profiler records them")
_CUDA = another_run("record with nsys profile --trace=cuda,nvtx on the GPU machine")
_NO_SHAPES = Unknown("Nsight Systems records no shapes of operators", _BY_TORCH)
_NO_SIZES = Unknown("Nsight Systems records neither sizes nor groups of collectives", _BY_TORCH)
_NO_FUNCTIONS = Unknown("Python functions are not read from an export of Nsight Systems", _BY_TORCH)
_NO_DEVICES = Unknown(
    "the export does not describe the GPU (it has no table TARGET_INFO_GPU)", analysis_option("--gpu")
)
_NO_OPERATORS = Unknown(
    "the export holds no ranges of operators",
    another_run("let the job write them (with torch.autograd.profiler.emit_nvtx():), or capture with diagnose run"),
)
_NO_GRIDS = Unknown(
    "Nsight Systems records no occupancy, and blocks alone do not tell how full the device is", _BY_TORCH
)

_INSTEAD: Mapping[str, Unknown] = {  # by what would be captured with torch's profiler
    "record_shapes=True": _NO_SHAPES,
    "torch 2.3 or later": _NO_SIZES,
    "torch >= 2.3": _NO_SIZES,
    "torch 2.3 or later, which records the ranks of each process group": _NO_SIZES,
    "a single process": Unknown(
        "an export does not say how many ranks the job has",
        another_run("record every node, and put the exports into one folder"),
    ),
    "with_stack=True in a run of its own": _NO_FUNCTIONS,
    "torch.profiler and with_stack=True in a run of its own: diagnose run samples stacks and records no calls": (
        _NO_FUNCTIONS
    ),
    "a torch that writes deviceProperties": _NO_DEVICES,
    "a PyTorch that records blocks per SM": _NO_DEVICES,
    "a CUDA build of PyTorch 2.0 or later, which writes blocks, warps and occupancy": _NO_GRIDS,
    "ProfilerActivity.CUDA on the GPU machine": Unknown("the export has no GPU activity", _CUDA),
    "ProfilerActivity.CUDA beside ProfilerActivity.CPU": Unknown("the export has no GPU activity", _CUDA),
    "CPU and CUDA activities together": Unknown("the export shows no calls of CUDA", _CUDA),
    "capture CPU and CUDA activities together": _NO_OPERATORS,
    "ProfilerActivity.CPU and CUDA together": _NO_OPERATORS,
    "capture again without Nsight or DCGM profiling attached, with at least one warm-up step": Unknown(
        "kernels were launched but the export holds no GPU activity",
        another_run("record again with --trace=cuda,nvtx, and let nsys end by itself so that it can write what it has"),
    ),
}


def in_terms_of_recorder(value: Value, trace: Trace) -> Value:
    """Return the value; if only torch's profiler would make it known, with a reason and remedy for Nsight Systems.

    Alternative ways to make it known are kept.
    """
    capture = value.capture if isinstance(value, Unknown) else None
    instead = _INSTEAD.get(capture.what) if capture is not None and trace.of_nsight else None
    if capture is None or instead is None:
        return value
    return Unknown(instead.because, _with(instead.capture, capture.or_else))


def _with(capture: Capture | None, or_else: Capture | None) -> Capture | None:
    if capture is None or or_else is None or or_else.what in _INSTEAD or "torch" in or_else.what:
        return capture
    return Capture(kind=capture.kind, what=capture.what, or_else=or_else)
