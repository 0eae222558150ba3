"""Build small Kineto traces: a host clock that the calls advance, streams that run what the host launches.

    job = Trace(gpu="NVIDIA H100 80GB HBM3")
    with job.step():
        job.op("aten::mm", [[512, 512], [512, 512]], kernel="nvjet_tst_128x256_64x4_1x2_h_bz_TNT", gpu_us=40)
        job.item()
    trace = job.json()

Every duration is given in microseconds; inside, times are whole nanoseconds.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kineto_host import BF16, Host
from kineto_rows import GPUS, Row, begin_of, closing_rows, device_properties, ns_of, row_of, set_end

COMPUTE, COMMUNICATION, COPY = 7, 23, 27  # stream ids as PyTorch hands them out
BASE_NS = 1_758_000_000_000_000_000 // 7_889_238_000_000_000 * 7_889_238_000_000_000
LAUNCH_NS, LATENCY_NS = 3_000, 4_000  # of a launch call on the host; from its end to the kernel's start
ZERO_GRAD = "Optimizer.zero_grad#AdamW.zero_grad"
QUEUE = 1024  # launches a stream holds before the next launch call blocks
NCCL = {  # Collective name: (annotation, kernel, factor of the input size that is the output size)
    "allreduce": ("all_reduce", "AllReduce_Sum_{}_RING_LL", "same"),
    "_allgather_base": ("_all_gather_base", "AllGather_RING_LL", "times"),
    "_reduce_scatter_base": ("_reduce_scatter_base", "ReduceScatter_Sum_{}_RING_LL", "divided"),
    "broadcast": ("broadcast", "Broadcast_RING_LL", "same"),
    "all_to_allv": ("all_to_all", "SendRecv", "same"),
    "send": ("send", "SendRecv", "same"),
}
NCCL_TYPES = {"BFloat16": ("bf16", 2), "Half": ("f16", 2), "Float": ("f32", 4), "Int": ("i32", 4), "Byte": ("u8", 1)}
Kernels = str | Sequence[tuple[str, float]]


class Trace(Host):
    """One rank's trace under construction. `gpu=None` makes a trace of a job that runs on the CPU only.

    With `trains` the optimizer sets its gradients to None, in no time, where the first event begins.
    """

    def __init__(
        self,
        gpu: str | None = "NVIDIA H100 80GB HBM3",
        rank: int = 0,
        world: int = 1,
        *,
        backend: str = "nccl",
        first_step: int = 10,
        start_us: float = 0,
        trains: bool = True,
    ) -> None:
        super().__init__(rank, first_step, start_us)
        self.gpu, self.world, self.backend, self.trains = gpu, world, backend, trains
        self.stream_end: dict[int, int] = {}
        self._starts: dict[int, list[int]] = {}
        self._correlations, self._seq = 0, {"0": 0}
        self._captures = False

    # -- the device ----------------------------------------------------------------------------------------------

    def op(
        self,
        name: str,
        dims: Any = None,
        kernel: Kernels = (),
        gpu_us: float = 0,
        *,
        dtype: str = BF16,
        host_us: float = 5,
        stream: int = COMPUTE,
        blocks: int = 1056,
        args: Row | None = None,
    ) -> None:
        """An operator that spends `host_us` and launches one kernel, or several given as (name, us) pairs."""
        with self.inside(name, dims, dtype, args):
            self.host(host_us)
            for title, us in [(kernel, gpu_us)] if isinstance(kernel, str) else kernel:
                self.launch(title, us, stream, blocks=blocks)

    def launch(
        self, name: str, us: float, stream: int = COMPUTE, *, after: int = 0, blocks: int = 1056, **args: Any
    ) -> Row:
        """Launch a kernel; it starts when the stream, the launch latency and `after` (ns) allow it."""
        per_sm = round(blocks / GPUS[self.gpu or ""][3], 6)
        shape = {"grid": [blocks, 1, 1], "block": [128, 1, 1], "blocks per SM": per_sm, "warps per SM": per_sm * 4}
        more = {"queued": 0, "registers per thread": 32, "shared memory": 0, **shape, "est. achieved occupancy %": 50}
        call = "cuLaunchKernel" if name.startswith("triton_") else "cudaLaunchKernel"
        call = "cudaLaunchKernelExC" if name.startswith(("nccl", "nvjet")) else call
        return self._submit("kernel", name, ns_of(us), stream, call, {**more, **args}, after)

    def sync(self, call: str = "cudaStreamSynchronize", stream: int | None = COMPUTE) -> None:
        """Block the host until the stream, or the device for `stream=None`, has nothing left to do."""
        ends = self.stream_end.values() if stream is None else [self.stream_end.get(stream, 0)]
        begin, self.now = self.now, max([self.now, *ends]) + 2_000
        self._call(call, begin)

    def item(self) -> None:
        """`tensor.item()`: four bytes to the host and a wait for them."""
        with self.inside("aten::item", [[]]), self.inside("aten::_local_scalar_dense", [[]]):
            self.host(3)
            self._memcpy("Memcpy DtoH (Device -> Pinned)", 4, 1.2, COMPUTE)
            self.sync()

    @contextmanager
    def graph_capture(self, call: str = "cudaStream{}Capture") -> Iterator[None]:
        """A capture around the block: what it launches is recorded for a graph and leaves no activity."""
        self.now += 2_000
        self._call(call.format("Begin"), self.now - 2_000)
        self._captures = True
        yield
        self._captures = False
        self.now += 2_000
        self._call(call.format("End"), self.now - 2_000)

    def copy(self, bytes: int, kind: str = "HtoD", pinned: bool = False, stream: int = COMPUTE) -> None:
        """`tensor.to(device)`; without pinned memory the host waits for the copy."""
        memory, rate = ("Pinned", 50e9) if pinned else ("Pageable", 10e9)
        ways = {"HtoD": f"{memory} -> Device", "DtoH": f"Device -> {memory}", "DtoD": "Device -> Device"}
        us = bytes / (2e12 if kind == "DtoD" else rate) * 1e6 + 1
        with self.inside("aten::to", [[bytes]]), self.inside("aten::copy_", [[bytes], [bytes]]):
            self.host(4)
            self._memcpy(f"Memcpy {kind} ({ways[kind]})", bytes, us, stream)
            if not pinned and kind != "DtoD":
                self.sync(stream=stream)

    def malloc(self, us: float, call: str = "cudaMalloc") -> None:
        """An allocator call that reaches the driver (also cudaFree, cudaHostAlloc)."""
        self.now += ns_of(us)
        self._call(call, self.now - ns_of(us))

    def memory(self, bytes: int, allocated: int, reserved: int) -> None:
        """A [memory] instant: an allocation (or, negative, a release) and the totals after it, in bytes."""
        args = {"Device Type": 1, "Device Id": 0, "Addr": 140_000_000_000_000, "Bytes": bytes}
        args |= {"Total Allocated": allocated, "Total Reserved": reserved}
        self._events.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": self.pid,
                             "tid": self.tid, "ts": self.now / 1000, "args": args})  # fmt: skip

    def collective(
        self,
        name: str,
        bytes: int,
        gpu_us: float = 0,
        *,
        seq: int | None = None,
        stream: int = COMMUNICATION,
        dtype: str = "BFloat16",
        group: str = "0",
        ranks: Sequence[int] | None = None,
        wait: bool = False,
    ) -> Row:
        """An NCCL collective of `bytes` per rank, behind the compute stream; `wait` makes that stream wait for it."""
        members = list(ranks or range(self.world))
        number = self._seq.get(group, 0) + 1 if seq is None else seq
        self._seq[group] = number
        title, kernel, size = NCCL[name]
        short, itemsize = NCCL_TYPES[dtype]
        n = bytes // itemsize
        out = {"same": n, "times": n * len(members), "divided": n // len(members)}[size]
        args = {"Collective name": name, "In msg nelems": n, "Out msg nelems": out, "Group size": len(members),
                "dtype": dtype, "In split size": "[]", "Out split size": "[]", "Process Group Name": group,
                "Process Group Description": "default_pg" if group == "0" else f"group_{group}",
                "Process Group Ranks": str(members), "Seq": number}  # fmt: skip
        host = {"Rank": self.rank, "Global rank start": members[0], "Global rank stride": 1}
        with self.inside("record_param_comms", [[n]], BF16, {**args, **host}):
            self.host(10)
            with self.annotation(f"nccl:{title}", 2):
                ready = self.stream_end.get(COMPUTE, 0)
                full = f"ncclDevKernel_{kernel.format(short)}(ncclDevKernelArgsStorage<4096ul>)"
                row = self.launch(full, gpu_us, stream, after=ready, blocks=24, **args)
        if wait:
            self.wait(stream)
        return row

    def wait(self, stream: int = COMMUNICATION, waiter: int = COMPUTE) -> None:
        """Make stream `waiter` wait for what `stream` holds now (cudaStreamWaitEvent); the host goes on."""
        self.stream_end[waiter] = max(self.stream_end.get(waiter, 0), self.stream_end.get(stream, 0))
        self.now += 1_500
        self._call("cudaStreamWaitEvent", self.now - 1_500)

    # -- the file ------------------------------------------------------------------------------------------------

    def json(self) -> dict[str, Any]:
        """The trace as Kineto writes it, after the device synchronisation with which a profile ends."""
        if max(self.stream_end.values(), default=0) > self.now:
            self.sync("cudaDeviceSynchronize", stream=None)
        world = list(range(self.world))
        group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": f"cuda:{self.backend}"}
        group |= {"pg_size": self.world, "ranks": world}  # type: ignore[dict-item]
        distributed = {"backend": self.backend, "rank": self.rank, "world_size": self.world, "pg_count": 1,
                       "pg_config": [group], "nccl_version": "2.27.5"}  # fmt: skip
        begin = min((begin_of(row) for row in self._events if row["ph"] == "X"), default=None)
        trains = (
            []
            if begin is None or not self.trains
            else [row_of("user_annotation", ZERO_GRAD, begin, begin, self.pid, self.pid, {})]
        )
        closing = closing_rows(self.pid, self.gpu, self._begin, self.now)
        cuda = {"cupti_version": 26, "cuda_runtime_version": 12080, "cuda_driver_version": 12080}
        return {
            "schemaVersion": 1,
            "deviceProperties": device_properties(self.gpu, self.world),
            **(cuda if self.gpu else {}),
            **({"distributedInfo": distributed} if self.world > 1 else {}),
            "record_shapes": 1,
            "trace_id": f"{self.rank:032X}",
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS,
            "traceEvents": self._events + self._device_annotations() + trains + closing,
            "traceName": f"rank{self.rank}.json",
        }

    def write(self, path: str | Path) -> Path:
        """Write the trace to `path`, compressed where the name ends in .gz; the same trace gives the same bytes."""
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.json(), separators=(", ", ": ")).encode()
        path.write_bytes(gzip.compress(text, 9, mtime=0) if path.suffix == ".gz" else text)
        return path

    # -- inside --------------------------------------------------------------------------------------------------

    def _call(self, name: str, begin: int) -> int:
        self._correlations += 1
        owner = [number for tid, number in self._ops if tid == self.tid][-1:]
        args = {**({"External id": owner[0]} if owner else {}), "cbid": 211, "correlation": self._correlations}
        cat = "cuda_driver" if name.startswith("cuL") else "cuda_runtime"
        self._row(cat, name, begin, self.now, args)
        return self._correlations

    def _submit(
        self, cat: str, name: str, ns: int, stream: int, call: str, args: dict[str, Any], after: int = 0
    ) -> Row:
        begin, queue = self.now, self._starts.setdefault(stream, [])
        self.now += LAUNCH_NS
        if len(queue) >= QUEUE:
            self.now = max(self.now, queue[-QUEUE])
        if self._captures:
            self._call(call, begin)
            return {}
        start = max(self.stream_end.get(stream, 0), self.now + LATENCY_NS, after)
        queue.append(start)
        self.stream_end[stream] = start + ns
        correlation = self._call(call, begin)
        owner = {k: v for k, v in self._events[-1]["args"].items() if k == "External id"}
        link = {"device": 0, "context": 1, "stream": stream, "correlation": correlation}
        row = row_of(cat, name, start, start + ns, 0, stream, {**owner, **link, **args})
        self._events.append(row)
        for tid, launched in self._open:
            if tid == self.tid:
                launched.setdefault(stream, []).append(row)
        return row

    def _memcpy(self, name: str, bytes: int, us: float, stream: int) -> None:
        args = {"bytes": bytes, "memory bandwidth (GB/s)": bytes / us / 1000}
        self._submit("gpu_memcpy", name, ns_of(us), stream, "cudaMemcpyAsync", args)

    def _device_annotations(self) -> list[Row]:
        rows = []
        for name, number, launched in self._annotations:
            for stream, work in launched.items():
                begin, end = begin_of(work[0]) - 1, begin_of(work[-1]) + round(work[-1]["dur"] * 1000) + 1
                args = {"External id": number}
                rows.append(row_of("gpu_user_annotation", name, begin, end, 0, stream, args))
        return rows


def collective(jobs: Sequence[Trace], name: str, bytes: int, transfer_us: float, **more: Any) -> None:
    """One collective of all the jobs: it ends on all of them `transfer_us` after the last one entered it."""
    wait = more.pop("wait", False)
    rows = [job.collective(name, bytes, **more) for job in jobs]
    stream = rows[0]["tid"]
    end = max(map(begin_of, rows)) + ns_of(transfer_us)
    for job, row in zip(jobs, rows, strict=True):
        set_end(row, end)
        job.stream_end[stream] = end
        if wait:
            job.wait(stream)
