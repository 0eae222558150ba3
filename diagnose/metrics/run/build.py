"""Whether torch is built for what it runs on."""

import re

from diagnose.facts import Unknown, Value, nothing_helps
from diagnose.metrics.measured import Measured
from diagnose.metrics.registry import metric
from diagnose.metrics.run.environment import UNTOLD, setting
from diagnose.metrics.unknowns import NO_RECORD

_VERSION = re.compile(r"(\d{1,4})\.(\d{1,4})")
_CODE = re.compile(r"sm_(\d{1,3})(\d)([af]?)\Z")


@metric("flag", needs_gpu=False)
def debug_build(m: Measured) -> Value:
    """Whether torch is built for debugging (torch.version.debug)."""
    return setting(m, "debug_build")


@metric("flag")
def has_code_for_gpu(m: Measured) -> Value:
    """Whether torch holds machine code for the GPU: of its generation, and no later than it is."""
    gpu = _VERSION.fullmatch(m.record.text("device.compute_capability") or "")
    listed = m.record.get("torch_settings.gpu_code")
    if gpu is None or not isinstance(listed, list) or not listed:
        return UNTOLD if m.record else NO_RECORD
    major, minor = int(gpu[1]), int(gpu[2])
    codes = [(int(code[1]), int(code[2]), code[3]) for code in map(_CODE.match, listed) if code]
    if not codes:
        return Unknown("torch lists no code for NVIDIA GPUs", nothing_helps("it is built for others"))
    return any(of == major and (at == minor if kind == "a" else at <= minor) for of, at, kind in codes)


@metric("flag")
def driver_behind_torch(m: Measured) -> Value:
    """Whether torch is built for a newer CUDA than the driver is of."""
    built, driver = (_VERSION.match(m.record.text(f"versions.{name}") or "") for name in ("cuda", "driver_cuda"))
    if built is None or driver is None:
        return UNTOLD if m.record else NO_RECORD
    return tuple(map(int, built.groups())) > tuple(map(int, driver.groups()))


@metric("text", needs_gpu=False)
def cuda_of_torch(m: Measured) -> Value:
    """The CUDA that torch is built for."""
    return m.record.text("versions.cuda") or (UNTOLD if m.record else NO_RECORD)


@metric("text", needs_gpu=False)
def cuda_of_driver(m: Measured) -> Value:
    """The newest CUDA that the driver serves."""
    return m.record.text("versions.driver_cuda") or (UNTOLD if m.record else NO_RECORD)
