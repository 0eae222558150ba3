"""Named ranges: one helper emits each to NVTX (for Nsight) and to record_function (for Kineto), under the same name.

Those around the job's own methods are for the probe's trace and for tools that listen to NVTX: a trace that the job
takes itself is as it would be without them. If nobody listens, a range costs well under a microsecond.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from inspect import isfunction
from typing import Any

from .. import protocol
from ..guard import quietly
from ..hand_over import replace
from ..interrupts import let_out
from ..introspection import unseen
from .range_times import Timed, times

STEP = protocol.STEP_RANGE
DATA_WAIT = protocol.DATA_WAIT_RANGE
TO_DEVICE = protocol.TO_DEVICE_RANGE
FORWARD = protocol.FORWARD_RANGE
BACKWARD = protocol.BACKWARD_RANGE
CLIP = protocol.CLIP_RANGE
OPTIMIZER = protocol.OPTIMIZER_RANGE
LOG = protocol.LOG_RANGE
EVAL = protocol.EVAL_RANGE
SAVE = protocol.SAVE_RANGE
GENERATION = protocol.GENERATION_RANGE
REWARDS = protocol.REWARDS_RANGE
LOG_PROBABILITIES = protocol.LOG_PROBABILITIES_RANGE
_OF_A_STEP = (STEP, DATA_WAIT, TO_DEVICE, FORWARD, BACKWARD, CLIP, OPTIMIZER, LOG, EVAL, SAVE)
NAMES = (*_OF_A_STEP, GENERATION, REWARDS, LOG_PROBABILITIES)

_TOOLS = ("NVTX_INJECTION64_PATH", protocol.NSIGHT)


class Emitter:
    """The functions that emit ranges in this process; `listening()` returns whether anybody reads them now."""

    def __init__(self) -> None:
        self.nvtx = _nvtx()
        self.record, self.listening = _recorder(self.nvtx is not None)


class Range:
    """A block with a name; entering it never raises."""

    __slots__ = ("_name", "_nvtx", "_record", "_timed")

    def __init__(self, name: str) -> None:
        self._name = name
        self._record: Any = None
        self._nvtx: Any = None
        self._timed = Timed(name)

    def __enter__(self) -> None:
        self._timed.__enter__()
        if _listening():
            handled = sys.exc_info()[1]
            try:
                self._open(emitter())
            except BaseException as error:
                let_out(error, handled)

    def _open(self, emit: Emitter) -> None:
        if emit.nvtx is not None:
            emit.nvtx.push(self._name)
            self._nvtx = emit.nvtx
        if emit.record is not None:
            record = emit.record(self._name)
            with unseen():
                record.__enter__()
            self._record = record

    def __exit__(self, *error: object) -> None:
        self._timed.__exit__()
        if self._record is None and self._nvtx is None:
            return
        record, self._record = self._record, None
        nvtx, self._nvtx = self._nvtx, None
        if record is not None:
            with unseen():
                quietly(lambda: record.__exit__(None, None, None))
        if nvtx is not None:
            quietly(nvtx.pop)


class StepRange:
    """The NVTX range of the current step; `next()` ends it and begins another. Steps may cut across other ranges.

    Kineto gets none: the profiler writes ProfilerStep ranges of its own.
    """

    def __init__(self) -> None:
        self._nvtx: Any = None

    def next(self) -> None:
        """End the step's range and begin the next one."""
        self.end()
        nvtx = emitter().nvtx
        if nvtx is not None:
            self._nvtx = nvtx.start(STEP)

    def end(self) -> None:
        """End the step's range."""
        started, self._nvtx = self._nvtx, None
        nvtx = emitter().nvtx
        if started is not None and nvtx is not None:
            nvtx.end(started)


def within(name: str) -> Callable[..., Any]:
    """A wrapper that runs a call inside a range; a call within a range of that name (`super()`) opens no second."""

    def called(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        block = None if name in _open else asked_for(name)
        if block is None:
            return function(*args, **kwargs)
        _open.add(name)
        try:
            with block:
                return function(*args, **kwargs)
        finally:
            _open.discard(name)

    return called


def wrap_method(owner: type, method: str, name: str) -> None:
    """Put the method that `owner` itself defines inside a range; ignore one that is missing or already wrapped."""
    if isfunction(vars(owner).get(method)):
        replace(owner, method, within(name), f"{name} is in no range")


def record(on: bool) -> None:
    """Set whether the probe's own profiler runs: only then do the wrapped methods of the job reach Kineto."""
    global _recording
    _recording = on


def asked_for(name: str) -> Range | Timed | None:
    """A range around the job's work, recorded if somebody listens or only timed; None if it is neither."""
    if _recording or _tool_listens():
        return Range(name)
    return Timed(name) if times.on else None


def emitter() -> Emitter:
    """The process's emitter, built on first use."""
    global _emitter
    if _emitter is None:
        _emitter = Emitter()
    return _emitter


_emitter: Emitter | None = None
_open: set[str] = set()  # the names of the wrapped calls that now run
_recording = False


def _find_listener() -> bool:
    """Build the emitter at the first question and return its answer; later questions go straight to it."""
    global _listening
    listening: Any = quietly(lambda: emitter().listening)
    if listening is not None:
        _listening = listening
    return bool(listening is not None and listening())


def _find_tool() -> bool:
    global _tool_listens
    attached = quietly(lambda: emitter().nvtx is not None) is True
    _tool_listens = _always if attached else _never
    return attached


def _always() -> bool:
    return True


def _never() -> bool:
    return False


_listening: Callable[[], bool] = _find_listener
_tool_listens: Callable[[], bool] = _find_tool


class _NvtxPackage:
    """NVIDIA's nvtx package; messages are registered once."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain
        self._attributes = {name: domain.get_event_attributes(message=name) for name in NAMES}
        self.pop = domain.pop_range
        self.end = domain.end_range

    def push(self, name: str) -> None:
        self._domain.push_range(self._of(name))

    def start(self, name: str) -> Any:
        return self._domain.start_range(self._of(name))

    def _of(self, name: str) -> Any:
        if name not in self._attributes:
            self._attributes[name] = self._domain.get_event_attributes(message=name)
        return self._attributes[name]


class _TorchNvtx:
    """Ranges of torch.cuda.nvtx, used if the nvtx package is missing."""

    def __init__(self, nvtx: Any) -> None:
        self.push = nvtx.range_push
        self.pop = nvtx.range_pop
        self.start = nvtx.range_start
        self.end = nvtx.range_end


def _nvtx() -> _NvtxPackage | _TorchNvtx | None:
    """The module for NVTX ranges, or None if no tool listens to them."""
    try:
        import nvtx

        domain: Any = nvtx.get_domain("diagnose")
        return None if type(domain).__name__ == "DummyDomain" else _NvtxPackage(domain)
    except BaseException as error:
        let_out(error)
        return _torch_nvtx()


def _torch_nvtx() -> _TorchNvtx | None:
    if not any(os.environ.get(name) for name in _TOOLS):
        return None
    try:
        import torch

        return _TorchNvtx(torch.cuda.nvtx) if torch.cuda.is_available() else None
    except BaseException as error:
        let_out(error)
        return None


def _recorder(always: bool) -> tuple[Any, Callable[[], bool]]:
    """The record_function to use, and a function that returns whether anybody listens."""
    try:
        from torch.autograd import _profiler_enabled as enabled
    except ImportError:
        return None, _always if always else _never
    from torch.profiler import (
        record_function,  # the quicker _RecordFunctionFast is written as an operator, not as a range
    )

    return record_function, _always if always else enabled
