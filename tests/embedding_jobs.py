"""Work of a step with embedding tables."""

from collections.abc import Callable

from kineto import Trace

Work = Callable[[Trace], object]
GATHER = "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long, unsigned int, 2, 2, -2>()"
FILL = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"


def dense_gradient(rows: int) -> Work:
    """2,048 samples look up a table of so many rows, whose whole gradient is written."""

    def work(job: Trace) -> None:
        job.op("aten::embedding", [[rows, 64], [2048]], GATHER, 20)
        with job.inside("aten::embedding_dense_backward", [[2048, 64], [2048]]):
            job.op("aten::zero_", [[rows, 64]], FILL, 400)

    return work


def lookups(tables: int) -> Work:
    """Each table is looked up by a kernel of its own."""

    def work(job: Trace) -> None:
        for _ in range(tables):
            job.op("aten::_embedding_bag", [[50_000, 64], [40_000], [2048]], GATHER, 100)

    return work
