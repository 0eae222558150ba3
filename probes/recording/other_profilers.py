"""Profilers that the job starts itself: torch has room for one in a process, and that one is the job's.

A profiler is in use from its preparation on, a warm-up before torch calls it enabled. So preparations are watched from
the moment that torch is there; ours gives way to one of the job's, and never starts or stops anything while that one is
in use.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping
from importlib import import_module
from threading import get_ident
from typing import Any

from ..guard import quietly
from ..hand_over import replace
from ..introspection import own_attribute
from ..protocol import NSIGHT

_BEGIN = (
    ("torch.autograd.profiler", "profile", "_prepare_trace"),
    ("torch.autograd.profiler", "emit_nvtx", "__enter__"),
    ("torch.autograd.profiler", "emit_itt", "__enter__"),
    ("torch.autograd.profiler_legacy", "profile", "__enter__"),
)
_RESULTS = "kineto_results"  # of a profiler: replaced when it ends
_own: Any = None
_thread = 0
_give_way: Callable[[], object] = list
_before: dict[str, Callable[[], object]] = {}
_forsake: Callable[[], object] = list
_prepared: list[tuple[Any, int]] = []  # weak references, and which results each had then


def watch() -> None:
    """Watch every profiler that begins from now on."""
    for module, name, method in _BEGIN:
        kind = getattr(quietly(lambda module=module: import_module(module)), name, None)  # type: ignore[misc]
        if kind is not None and method in vars(kind):
            replace(kind, method, _beginning, "a profiler of the job is not seen")


def begins(profiler: Any, give_way: Callable[[], object], forsake: Callable[[], object]) -> None:
    """Register the probe's `profiler`, begun in this thread; `give_way` ends it before one of the job's begins here.

    One that begins in another thread takes torch's only session from it, and to end it afterwards would crash the
    process: `forsake` leaves it as it is.
    """
    global _own, _thread, _give_way, _forsake
    _own, _thread, _give_way, _forsake = profiler, get_ident(), give_way, forsake


def tell(before: Callable[[], object], of: str = "") -> None:
    """Call `before` each time that a profiler of the job is about to begin, in any thread; one callback per `of`."""
    _before[of] = before


def ended() -> None:
    """Note that the probe's own profiler has ended."""
    global _own
    _own = None


def running() -> bool:
    """Whether a profiler of the job is in use."""
    if _own is None and _enabled():
        return True
    if _prepared:
        _prepared[:] = [each for each in _prepared if _unfinished(*each)]
    return bool(_prepared)


def signs() -> tuple[Callable[[], bool], list[tuple[Any, int]]]:
    """The two things that `running` checks while the probe has no profiler: whether torch reports one, and a list."""
    autograd: Any = sys.modules["torch.autograd"]
    return autograd._profiler_enabled, _prepared


def nsight_records(environment: Mapping[str, str]) -> bool:
    """Whether Nsight Systems is loaded into this process, which uses a GPU: CUDA serves one profiler at a time."""
    torch: Any = sys.modules["torch"]
    return bool(environment.get(NSIGHT)) and bool(torch.cuda.is_initialized())


def _enabled() -> bool:
    """Whether torch has a profiler on, in this thread."""
    autograd: Any = sys.modules["torch.autograd"]
    return bool(autograd._profiler_enabled())


def _beginning(original: Any, profiler: Any, /, *args: Any, **kwargs: Any) -> Any:
    if _own is None or profiler is not own_attribute(_own, "profiler"):
        for before in list(_before.values()):
            before()
        if _own is not None:
            (_give_way if get_ident() == _thread else _forsake)()
        if _RESULTS in vars(profiler):
            _prepared.append((weakref.ref(profiler), id(own_attribute(profiler, _RESULTS))))
    return original(profiler, *args, **kwargs)


def _unfinished(reference: Any, results: int) -> bool:
    profiler = reference()
    return profiler is not None and id(own_attribute(profiler, _RESULTS)) == results
