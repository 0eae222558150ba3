"""The measurement, from the first batch to the answer: each stage gets its part of the time, then the process ends."""

from __future__ import annotations

import hashlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from ..apply.recorded import Refusals
from ..apply.samples import times_repeated
from ..config import rank_and_world_size
from ..facts.job_objects import LOADER
from ..guard import described, guarded, quietly, say
from ..hand_over import a_thread
from ..interrupts import theirs
from ..introspection import own_attribute, plain
from ..machine.cores import cores
from .asked import MEASURED, PASSED_OVER, VERSION, LoadingRequest
from .contents import bytes_of, tensors_in
from .ending import DEFECT, INTERRUPTED, end
from .in_process import InProcess
from .source import BatchSource
from .storage import storage
from .work_words import work_of
from .workers import hand_over, with_workers

IN_PROCESS, LOCK, ONE_WORKER, AS_IN_THE_JOB, HAND_OVER, STORAGE, DEVICE = 0.4, 0.04, 0.15, 0.15, 0.06, 0.14, 0.06


def measure(asked: LoadingRequest, loader: Any, loop: str, batches_per_step: int | None, refusals: Refusals) -> None:
    """Measure the loader, leave the answer with the changes that the job refuses, and end the process.

    Raises:
        Exception: what the job's own code raises at its first batch.
    """
    say(f"{loop} asks for its first batch: the input is measured for about {asked.seconds:g} s, nothing is trained")
    refusals.loader_begins(loader)
    source = BatchSource(loader)
    loaded = InProcess(source)
    try:
        loaded.first()
    except StopIteration:
        quietly(lambda: asked.write(PASSED_OVER, {"loaders": [], "empty": _why_empty(source)}))
        end(0)
    except KeyboardInterrupt:
        end(INTERRUPTED)
    except BaseException as error:
        raise theirs(error) from error.__cause__

    def answer() -> dict[str, Any]:
        return {**_answer(asked, loaded, loop, batches_per_step), "refuses": refusals.of_input}

    try:
        written = guarded(lambda: asked.write(MEASURED, answer()), "not measured")
    except KeyboardInterrupt:
        end(INTERRUPTED)
    end(0 if written else DEFECT)


def _why_empty(source: BatchSource) -> str:
    """Why the loader has no batch."""
    name = type(source.dataset).__name__
    samples: Any = quietly(lambda: source.length)
    if not samples:
        return f"its dataset ({name}) is empty"
    if source.drops_last and samples < source.batch_size:
        has = "1 sample" if samples == 1 else f"{samples} samples"
        return f"its dataset ({name}) has {has}, and a batch of less than {source.batch_size} is dropped"
    return f"its sampler gives nothing of its dataset ({name})"


def _answer(asked: LoadingRequest, loaded: InProcess, loop: str, batches_per_step: int | None) -> dict[str, Any]:
    began = time.perf_counter()
    loaded.run(began + IN_PROCESS * asked.seconds, asked.samples)
    if not loaded.fetch.samples:
        raise ValueError(loaded.stopped or "no second batch could be loaded")
    restarts = loaded.source.restarts
    measured = _stages(asked, loaded)
    rank, world_size = rank_and_world_size()
    return {
        "version": VERSION,
        "loop": loop,
        "rank": rank,
        "world_size": world_size,
        "batches_per_step": batches_per_step,
        "cores": cores(os.environ, world_size),
        **_loader(loaded.source),
        "first_s": loaded.first_s,
        "stopped": loaded.stopped,
        "fetch": loaded.fetch.facts(),
        "collate": loaded.collate.facts(),
        "loading": loaded.work.facts(),
        "stacks": _known(lambda: work_of(loaded.sampler)),
        **measured,
        "lengths": loaded.lengths.facts(),
        "restarts": restarts,
        "pass_batches": loaded.source.pass_batches,
        "times_repeated": quietly(lambda: times_repeated(loaded.source.loader)) or 1,
        "seconds": time.perf_counter() - began,
    }


def _loader(source: BatchSource) -> dict[str, Any]:
    return {
        "loader": {name: plain(own_attribute(source.loader, name)) for name in LOADER},
        "batch_size": source.batch_size,
        "dataset": {
            "class": type(source.dataset).__name__,
            "is_iterable": source.is_iterable,
            "samples": quietly(lambda: source.length),
            "collated": source.batched,
        },
    }


def _stages(asked: LoadingRequest, loaded: InProcess) -> dict[str, Any]:
    """Run all measurements other than loading in process; one that fails is unknown, with the reason."""
    source, seconds, usual_s = loaded.source, asked.seconds, loaded.usual_s
    fetched = loaded.fetch.facts()
    workers = own_attribute(source.loader, "num_workers") or 0
    counts = sorted({1, workers} - {0})
    parts = {1: ONE_WORKER, workers: AS_IN_THE_JOB}
    samples = source.batch_size if source.batched else 1
    files = _known(
        lambda: storage(loaded.read, source.dataset, fetched["sample_bytes"], source.is_iterable, STORAGE * seconds)
    )
    return {
        "storage": files,
        "lock": _known(lambda: _in_time(seconds, usual_s) or beside_others(source.batch, LOCK * seconds)),
        "workers": [
            {"workers": each, **unknown}
            if (unknown := _in_time(seconds, usual_s))
            else with_workers(source, each, usual_s, parts[each] * seconds, loaded.lengths)
            for each in counts
        ],
        "hand_over": hand_over(source, loaded.batch, workers or 1, HAND_OVER * seconds),
        **to_device(loaded.batch, samples, own_attribute(source.loader, "pin_memory") is True, DEVICE * seconds),
    }


def _in_time(seconds: float, usual_s: float) -> dict[str, Any]:
    """Why a stage that takes two batches is not tried; nothing if they fit in the time of the measurement."""
    if 2 * usual_s <= seconds:
        return {}
    return {"because": f"a batch takes {usual_s:.3g} s: raise --seconds to {2 * usual_s:.0f} or more to try it"}


def _known(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return call()
    except Exception as error:
        return {"because": described(error)}


# Pinning batches, and copying them to the GPU, as the job's loader has it.

NO_GPU = "this process sees no CUDA device"


def to_device(batch: Any, samples: int, pinned: bool, seconds: float) -> dict[str, Any]:
    """The answer's `pin` and `copy` for a batch of so many samples, from `pinned` memory or as it is."""
    import torch

    if not torch.cuda.is_available():
        return {"pin": {"because": NO_GPU}, "copy": {"because": NO_GPU}}
    try:
        return _measured(
            torch, [each for each in tensors_in(batch) if each.device.type == "cpu"], samples, pinned, seconds
        )
    except Exception as error:
        because = f"{type(error).__name__}: {error}"[:300]
        return {"pin": {"because": because}, "copy": {"because": because}}


def _measured(torch: Any, tensors: list[Any], samples: int, pinned: bool, seconds: float) -> dict[str, Any]:
    if not tensors:
        return {name: {"because": "a batch has no tensors in host memory"} for name in ("pin", "copy")}
    size = sum(bytes_of(tensor) or 0 for tensor in tensors)
    source = [tensor.pin_memory() for tensor in tensors] if pinned else tensors

    def copied() -> None:
        for tensor in source:
            tensor.to("cuda", non_blocking=True)
        torch.cuda.synchronize()

    pin = _timed(lambda: [tensor.pin_memory() for tensor in tensors], samples, size, seconds / 2)
    return {"pin": pin, "copy": _timed(copied, samples, size, seconds / 2) | {"pinned": pinned}}


def _timed(call: Callable[[], object], samples: int, size: int, seconds: float) -> dict[str, Any]:
    """Time `call` again and again, without the first time."""
    call()
    began, times = time.perf_counter_ns(), 0
    while not times or time.perf_counter_ns() - began < seconds * 1e9:
        call()
        times += 1
    return {"samples": times * samples, "bytes": times * size, "wall_ns": time.perf_counter_ns() - began}


# Measure whether loading holds Python's lock (the GIL), so that threads would take turns but processes would not.
#
# A second thread runs during the loading. One that runs Python gets what the loading leaves of the lock; one that
# hashes needs no lock, and shows whether the host has a second core to spare.

SWITCH_S = 5e-4  # a thread that releases the lock for a moment gets it back soon
_HASHED = bytes(8 << 20)  # hashing so much releases the lock for long


def beside_others(load: Callable[[], object], seconds: float) -> dict[str, Any]:
    """CPU time of the loading, on all its threads, and of a second thread: first in Python, then one without the lock.

    Args:
        load: loads a batch.
        seconds: for each of the two at most, one batch at least.
    """
    usual = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        return {"in_python": _beside(load, _count, seconds), "without_lock": _beside(load, _hash, seconds)}
    finally:
        sys.setswitchinterval(usual)


def _beside(load: Callable[[], object], turn: Callable[[], object], seconds: float) -> dict[str, int]:
    begins = threading.Event()
    over = threading.Event()
    spent: list[int] = []

    def work() -> None:
        begins.wait()
        began = time.thread_time_ns()
        while not over.is_set():
            turn()
        spent.append(time.thread_time_ns() - began)

    thread = a_thread(work, "nothing computes beside the loading")
    thread.start()
    cpu, began = time.process_time_ns(), time.perf_counter_ns()
    begins.set()  # after the read of the process's clock, so that the thread's time is a part of it
    try:
        while True:
            load()
            if time.perf_counter_ns() - began > seconds * 1e9:
                break
    finally:
        over.set()
        thread.join()
    together_ns, wall_ns = time.process_time_ns() - cpu, time.perf_counter_ns() - began  # with the last turn beside
    return {"wall_ns": wall_ns, "loading_ns": max(together_ns - sum(spent), 0), "beside_ns": sum(spent)}


def _count() -> None:
    for _ in range(10_000):
        pass


def _hash() -> None:
    hashlib.sha256(_HASHED).digest()
