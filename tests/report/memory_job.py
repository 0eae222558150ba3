"""A job on a GPU whose memory the profiler noted: tensors rise from 12 to 30 GiB in each step, and once to 33 GiB."""

from pathlib import Path
from tempfile import TemporaryDirectory

from counted_memory import COUNTED
from kineto import Trace
from msgspec.structs import replace

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.capacity import Capacity, MemoryPart

GIB = 1 << 30
HELD, TOP, PEAK, RESERVED = 12 * GIB, 30 * GIB, 33 * GIB, 36 * GIB
PARTS = {"optimizer states": 5 * GIB, "weights": 4 * GIB, "gradients": 2 * GIB, "CUDA context": GIB}
LAYERS, STEPS = 40, 5
COUNTED_STEPS = STEPS - 1  # the profiler distorts the first


def traced(**of: int) -> Trace:
    job = Trace(**of)
    for number in range(STEPS):
        with job.step():
            for layer in range(2 * LAYERS):
                job.op("aten::mm", [[4096, 4096], [4096, 4096]], kernel="nvjet_gemm", gpu_us=90)
                rise = min(layer, 2 * LAYERS - layer) * (TOP - HELD) // LAYERS
                job.memory(rise, HELD + rise, RESERVED if number else RESERVED - 2 * GIB)
                if (number, layer) == (3, LAYERS):
                    job.memory(PEAK, PEAK, RESERVED)
            job.memory(0, HELD, RESERVED)
    return job


def job_with_memory() -> Diagnosis:
    """Its diagnosis, with a memory ledger."""
    with TemporaryDirectory() as folder:
        found = analyze(traced().write(Path(folder) / "rank0.json"))
    parts = tuple(MemoryPart(name=name, bytes=size, transient=False) for name, size in PARTS.items())
    return replace(found, capacity=Capacity(counted=replace(COUNTED, parts=parts)))
