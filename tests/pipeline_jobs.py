"""A stage of a pipeline."""

from analysed import GEMM
from kineto import Trace

MIB = 1 << 20


def first_stage(waits: bool) -> list[Trace]:
    """The first of two stages, which waits 2 ms for the other one's gradients, or hardly."""
    job = Trace(world=2)
    for _ in range(5):
        with job.step():
            for _ in range(3):
                job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 500)
                job.collective("send", 16 * MIB, 40, wait=True)
            with job.backward():
                job.collective("send", 16 * MIB, 2000 if waits else 40, wait=True)
                job.op("aten::mm", [[512, 512], [512, 512]], GEMM, 1500)
            with job.optimizer():
                job.op("aten::add", [[512], [512]], GEMM, 50)
    return [job]
