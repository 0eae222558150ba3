"""All ranks in lockstep: each call is one operation of every active rank, in arrays of shape (ranks,).

A host advances its own clock; a stream runs what its host launched as soon as the launch, the stream and what it waits
for allow; a collective starts on each rank by itself and ends on all its members together. Times are nanoseconds of
the true clock, which no trace shows.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .disturbance import Disturbance
from .events import AUTOGRAD, COMPUTE, HOST, START_NS, Column, Kernel, Lane, Mask, Row
from .groups import Groups, transfer_ns
from .job import Job

_GRID = (
    '"queued": 0, "registers per thread": 64, "shared memory": 0, "blocks per SM": 8.0, "warps per SM": 32.0, '
    '"grid": [1056, 1, 1], "block": [128, 1, 1], "est. achieved occupancy %%": 50'
)
LAUNCH_NS, READ_NS, WAIT_EVENT_NS = 4_000, 1_500, 1_500
PINNED_BYTES_PER_S, PAGEABLE_BYTES_PER_S = 25e9, 10e9
QUEUE = 1024  # launches that wait for the device before the next one holds the host


class Machine:
    """The ranks of a job while they run."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rows: list[Row] = []
        self.waited, self.step_ns = np.zeros((2, job.steps, job.ranks), np.int64)
        self.step_number, self.trouble = 0, Disturbance(job, 0)
        self.begin_micro_batch(0)
        self._rng = np.random.default_rng(job.seed)
        self._speed = self._rng.normal(1, job.spread, job.ranks)
        self.active = np.ones(job.ranks, bool)
        self.now = START_NS + self._rng.integers(0, 200_000, job.ranks)
        self._free: dict[int, Column] = {}
        self.kernel_ns = {True: 0.0, False: 0.0}  # by whether memory bounds them, mean over ranks, without faults
        self._queue: deque[Column] = deque(maxlen=QUEUE)
        self.computed = np.zeros(job.ranks, np.int64)  # of each rank's kernels but the collectives'
        self._lane = HOST
        self._numbers = self._correlation = 0
        self._known: dict[tuple[object, ...], NDArray[np.float64]] = {}

    # -- where and when ------------------------------------------------------------------------------------------

    @contextmanager
    def only(self, ranks: Mask) -> Iterator[None]:
        """Do the block on some of the ranks."""
        before, self.active = self.active, self.active & ranks
        yield
        self.active = before

    @contextmanager
    def unforeseen(self) -> Iterator[None]:
        """Do what only a faulty job does, without moving the draws of the others."""
        state = self._rng.bit_generator.state
        yield
        self._rng.bit_generator.state = state

    def begin_step(self, number: int) -> None:
        """The faults of the step at this position hold from now on."""
        self.step_number, self.trouble = number, Disturbance(self.job, number)
        self.step_ns[number] = -self.now
        self.begin_micro_batch(0)

    def begin_micro_batch(self, number: int) -> None:
        """The sequences of the micro-batch at this position in the step are computed from now on."""
        self.micro = number
        self.tokens = np.rint(self.job.tokens * self.trouble.work(1, number)).astype(np.int64)

    def end_step(self) -> None:
        """The step ends on each host."""
        self.step_ns[self.step_number] += self.now

    @property
    def finished(self) -> Column:
        """When each rank's host and streams have nothing left to do."""
        return np.maximum.reduce([self.now, *self._free.values()])

    def free(self, stream: int) -> Column:
        """When each rank's stream has nothing left to do."""
        return self._free.get(stream, np.zeros(self.job.ranks, np.int64))

    # -- the host ------------------------------------------------------------------------------------------------

    def host(self, us: float) -> None:
        """Host time that no event shows."""
        self._spend(us * 1000 * self._jitter(self.job.host_jitter) * self.trouble.host)

    def pause(self, ns: Column) -> None:
        """Exactly so much host time."""
        self._spend(ns)

    @contextmanager
    def range(
        self, name: str, cat: str = "user_annotation", args: str = "", slots: tuple[Column, ...] = ()
    ) -> Iterator[None]:
        """An event around what the block does."""
        self._numbers += 1
        text = f'"External id": {self._numbers}{", " + args if args else ""}'
        row = self.record(cat, name, self._lane, self.now, self.now, text, slots)
        yield
        row.end = self.now

    @contextmanager
    def backward(self, name: str) -> Iterator[None]:
        """Operators of the backward pass, on the autograd thread where there is a GPU."""
        before, self._lane = self._lane, AUTOGRAD if self.job.gpu else HOST
        with self.range("autograd::engine::evaluate_function: " + name, "cpu_op"):
            self.host(6)
            yield
        self._lane = before

    def op(
        self,
        name: str,
        dims: str,
        kernel: Kernel | None = None,
        host_us: float = 34,
        dtypes: tuple[str, ...] = ("c10::BFloat16",),
    ) -> None:
        """An operator; T in `dims` is the sequence length. On a CPU its host time is Python's, between operators.

        The types of its arguments take turns where they are fewer.
        """
        count = dims.count("T")
        kinds = '", "'.join((dtypes * (dims.count("[") - 1))[: dims.count("[") - 1])
        shapes = f'"Input Dims": {dims.replace("T", "%d")}, "Input type": ["{kinds}"]'
        if not self.job.gpu:
            self.host(host_us)
        with self.range(name, "cpu_op", shapes, (self.tokens,) * count):
            if self.job.gpu:
                self.host(host_us)
            if kernel:
                self.launch(kernel)

    def collection(self, ns: Column) -> None:
        """A garbage collection on the ranks where it lasts."""
        with self.unforeseen(), self.only(ns > 0):
            begin = self.now
            self._spend(ns)
            self.record("python_function", "Python GC", self._lane, begin, self.now, '"Python id": 1')

    # -- the device ----------------------------------------------------------------------------------------------

    def launch(self, kernel: Kernel) -> None:
        """Run a kernel on the compute stream; without a GPU, at once on the host."""
        length = self.trouble.work(kernel.power, self.micro) if kernel.power else 1.0
        self.kernel_ns[kernel.memory_bound] += kernel.us * 1000 * float(self.active.mean())
        trouble = self.trouble.kernels(kernel.memory_bound)
        ns = kernel.us * 1000 * self._jitter(self.job.jitter) * self._speed * length * trouble
        if not self.job.gpu:
            self._spend(ns)
            return
        self.computed += self.active * ns.astype(np.int64)
        call = "cudaLaunchKernelExC" if kernel.name.startswith("nvjet") else "cudaLaunchKernel"
        start = self._submit(call, COMPUTE)
        self._run("kernel", kernel.name, start, ns.astype(np.int64), _GRID)

    def read_back(self) -> None:
        """`tensor.item()`: four bytes to the host, which waits for them."""
        if not self.job.gpu:
            return
        with self.range("aten::item", "cpu_op"), self.range("aten::_local_scalar_dense", "cpu_op"):
            self.host(3)
            start = self._submit("cudaMemcpyAsync", COMPUTE)
            read = np.full(self.job.ranks, READ_NS)
            self._run("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", start, read, '"bytes": 4')
            self._call("cudaStreamSynchronize", np.maximum(self.free(COMPUTE) - self.now, 0) + self.trouble.return_ns)

    def copy(self, size: int, pinned: bool) -> None:
        """A batch goes to the device; from pageable memory the call returns when it is there."""
        ns = int(size / (PINNED_BYTES_PER_S if pinned else PAGEABLE_BYTES_PER_S) * 1e9)
        with self.range("aten::copy_", "cpu_op", f'"Input Dims": [[{size}], [{size}], []]'):
            self.host(4)
            start, call = self._submit("cudaMemcpyAsync", COMPUTE), self.rows[-1]
            memory = "Pinned" if pinned else "Pageable"
            title, many = f"Memcpy HtoD ({memory} -> Device)", np.full(self.job.ranks, ns)
            self._run("gpu_memcpy", title, start, many, f'"bytes": {size}')
            if not pinned:
                self._spend(np.maximum(start + ns - self.now, 0))
                call.end = self.now
                self._call("cudaStreamSynchronize", np.full(self.job.ranks, self.trouble.return_ns))

    def driver(self, name: str, us: float) -> None:
        """A call that reaches the driver, such as cudaMalloc; cudaFree waits for the device first."""
        wait = (
            np.maximum(self.free(COMPUTE) - self.now, 0) if name == "cudaFree" else np.zeros(self.job.ranks, np.int64)
        )
        self._call(name, wait + np.full(self.job.ranks, int(us * 1000 * self.trouble.costs("host"))))

    def wait(self, stream: int) -> None:
        """Make the compute stream wait for what another one holds now; without a GPU the host waits."""
        if not self.job.gpu:
            self._spend(np.maximum(self.free(stream) - self.now, 0))
            return
        self._free[COMPUTE] = np.where(
            self.active, np.maximum(self.free(COMPUTE), self.free(stream)), self.free(COMPUTE)
        )
        self._call("cudaStreamWaitEvent", np.full(self.job.ranks, WAIT_EVENT_NS * self.trouble.costs("host")))

    def started(self, stream: int) -> Column:
        """Launch a collective: when it starts on each rank, behind what the compute stream holds now."""
        if not self.job.gpu:
            return np.maximum(self.now + 40_000, self.free(stream))
        return np.maximum(self._submit("cudaLaunchKernelExC", stream), self.free(COMPUTE))

    def together(self, groups: Groups, start: Column, kind: str, size: float) -> Column:
        """When a collective of the groups' active members ends on each rank, from when it starts on each."""
        last = np.zeros(len(groups.members), np.int64)
        np.maximum.at(last, groups.of[self.active], start[self.active])
        self.waited[self.step_number] += np.where(self.active, last[groups.of] - start, 0)
        links, shape = self.job.links, len(groups.members)
        ns = self._transfers(groups, kind, size) * self._rng.lognormal(0, links.variation, shape)
        late = self._rng.uniform(0, links.end_jitter_us * 1000, self.job.ranks) * self.trouble.costs("communication")
        return last[groups.of] + (ns[groups.of] + late).astype(np.int64)

    def occupy(self, stream: int, until: Column) -> None:
        """The stream is busy until then."""
        self._free[stream] = np.where(self.active, np.maximum(until, self.free(stream)), self.free(stream))

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def link(self) -> str:
        """What ties a GPU activity to the call that launched it last."""
        return f'"External id": {self._numbers}, "correlation": {self._correlation}'

    def _transfers(self, groups: Groups, kind: str, size: float) -> NDArray[np.float64]:
        key = (id(groups), kind, size, self.step_number)
        if key not in self._known:
            ns = [transfer_ns(self.job, self.trouble, kind, members, size) for members in groups.members]
            self._known[key] = np.array(ns)
        return self._known[key]

    def _jitter(self, sigma: float) -> NDArray[np.float64]:
        return self._rng.lognormal(0, sigma, self.job.ranks)

    def _spend(self, ns: NDArray[Any]) -> None:
        self.now = self.now + (self.active * ns).astype(np.int64)

    def _call(self, name: str, ns: Column) -> None:
        self._correlation += 1
        begin = self.now
        self._spend(ns)
        args = f'"External id": {self._numbers}, "cbid": 211, "correlation": {self._correlation}'
        self.record("cuda_runtime", name, self._lane, begin, self.now, args)

    def _submit(self, call: str, stream: int) -> Column:
        took = (LAUNCH_NS * self._jitter(self.job.host_jitter) * self.trouble.host).astype(np.int64)
        self._call(call, np.maximum(took, self._queue[0] - self.now) if len(self._queue) == QUEUE else took)
        start = np.maximum(self.now + self.trouble.latency_ns, self.free(stream))
        self._queue.append(start)
        return start

    def _run(self, cat: str, name: str, start: Column, ns: Column, args: str) -> None:
        self.occupy(COMPUTE, start + ns)
        self.record(cat, name, COMPUTE, start, start + ns, f"{self.link}, {args}")

    def record(
        self, cat: str, name: str, lane: Lane, begin: Column, end: Column, args: str, slots: tuple[Column, ...] = ()
    ) -> Row:
        """An event of the active ranks; on a stream where `lane` is a number."""
        if isinstance(lane, int) and not cat.endswith("annotation"):
            args += f', "device": @DEVICE@, "context": 1, "stream": {lane}'
        self.rows.append(Row(cat, name, lane, begin, end, self.active, args, slots))
        return self.rows[-1]
