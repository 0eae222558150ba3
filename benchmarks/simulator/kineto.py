"""Traces as Kineto writes them: one template for all ranks that do the same, filled with each rank's times.

Left out are flows and the steps' GPU annotations, which repeat what correlations and launches say.
"""

import gzip
import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .amd import as_rocm
from .events import AUTOGRAD, HOST, START_NS, WORKER, Row
from .gpu import gpu
from .groups import Groups, listed
from .job import Job

CUDA = {"cupti_version": 26, "cuda_runtime_version": 12080, "cuda_driver_version": 12080}
ROCM = {"roctracer_version": 4.1, "hip_runtime_version": 60443483, "hip_driver_version": 60443483}
BASE_NS = 1_758_000_000_000_000_000 // 7_889_238_000_000_000 * 7_889_238_000_000_000
_LANES = {HOST: ("@PID@", "@PID@"), AUTOGRAD: ("@PID@", "@AUTOGRAD@"), WORKER: ("@PID@", "@WORKER@")}


class Texts:
    """The traces of a job's ranks.

    Args:
        job: the job that ran.
        groups: its process groups by purpose.
        rows: its events.
        offset_ns: of each rank's clock.
        drift: of each rank's clock, a fraction.
    """

    def __init__(
        self, job: Job, groups: dict[str, Groups], rows: list[Row], offset_ns: NDArray[Any], drift: NDArray[Any]
    ) -> None:
        self._job, self._groups, self._rows = job, groups, rows
        self._is_amd = job.gpu and gpu(job.device).is_amd
        self._active = np.stack([row.active for row in rows])
        self._offset, self._drift = offset_ns, drift
        self._values, self._first = self._columns()
        self._templates: dict[bytes, tuple[str, NDArray[Any]]] = {}

    def of(self, rank: int) -> str:
        """One rank's trace."""
        template, used = self._template(self._active[:, rank])
        events = template % tuple(self._values[used, rank].tolist())
        for mark, text in self._marks(rank).items():
            events = events.replace(mark, text)
        head = json.dumps(self._head(rank))[:-1]
        return f'{head}, "traceEvents": [\n{events}\n], "traceName": "rank{rank}.json"}}'

    def _columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Every number that differs from rank to rank, shape (numbers, ranks), and where each row's begin."""
        columns, first = [], [0]
        begins = self._shown(np.stack([row.begin for row in self._rows]))
        lasts = self._shown(np.stack([row.end for row in self._rows])) - begins
        for row, begin, begin_ns, last, last_ns in zip(
            self._rows, begins // 1000, begins % 1000, lasts // 1000, lasts % 1000, strict=True
        ):
            columns += [begin, begin_ns, last, last_ns, *row.slots]
            first.append(len(columns))
        return np.stack(columns), np.array(first)

    def _shown(self, ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The times on the ranks' own clocks."""
        shown: NDArray[np.int64] = ns + self._offset + np.rint((ns - START_NS) * self._drift).astype(np.int64)
        return shown

    def _template(self, active: NDArray[np.bool_]) -> tuple[str, NDArray[Any]]:
        key = active.tobytes()
        if key not in self._templates:
            rows = np.flatnonzero(active)
            used = np.concatenate([np.arange(self._first[i], self._first[i + 1]) for i in rows])
            events = (_event(self._rows[i], as_rocm if self._is_amd else str) for i in rows)
            self._templates[key] = ",\n".join(events), used
        return self._templates[key]

    def _marks(self, rank: int) -> dict[str, str]:
        pid = 40_000 + 17 * rank
        marks = {
            "@PID@": pid,
            "@AUTOGRAD@": pid + 9,
            "@WORKER@": pid + 11,
            "@RANK@": rank,
            "@DEVICE@": self._device(rank),
        }
        ranks = {f"@{purpose.upper()}@": listed(groups.ranks_of(rank)) for purpose, groups in self._groups.items()}
        return {mark: str(number) for mark, number in marks.items()} | ranks

    def _device(self, rank: int) -> int:
        return rank % self._job.ranks_per_node

    def _head(self, rank: int) -> dict[str, Any]:
        job = self._job
        gpus = min(job.ranks_per_node, job.ranks) if job.gpu else 0
        versions = (ROCM if self._is_amd else CUDA) if job.gpu else {}
        return {
            "schemaVersion": 1,
            "deviceProperties": [{"id": number, **job.device_properties} for number in range(gpus)],
            **versions,
            "trace_id": f"{job.seed * job.ranks + rank:032X}",
            "record_shapes": 1,
            "distributedInfo": self._distributed(rank),
            "host_name": job.hosts[int(job.node[rank])],
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": BASE_NS,
        }

    def _distributed(self, rank: int) -> dict[str, Any]:
        backend, device = ("nccl", "cuda") if self._job.gpu else ("gloo", "cpu")
        groups = {int(g.name[rank]): g for g in self._groups.values() if g.holds[rank]}
        config = [
            {"pg_name": str(name), "pg_desc": g.description, "backend_config": f"{device}:{backend}",
             "pg_size": g.size, "ranks": g.ranks_of(rank)}
            for name, g in groups.items()
        ]  # fmt: skip
        info = {"backend": backend, "rank": rank, "world_size": self._job.ranks, "pg_count": len(config)}
        return info | {"pg_config": config} | ({"nccl_version": "2.27.5"} if self._job.gpu else {})


def compressed(text: str) -> bytes:
    """The text in gzip's format; the same text gives the same bytes."""
    return gzip.compress(text.encode(), 4, mtime=0)


def _event(row: Row, named: Callable[[str], str]) -> str:
    pid, tid = _LANES[row.lane] if isinstance(row.lane, str) else ("@DEVICE@", str(row.lane))
    name = json.dumps(named(row.name)).replace("%", "%%")
    return (
        f'{{"ph": "X", "cat": "{row.cat}", "name": {name}, "pid": {pid}, "tid": {tid}, '
        f'"ts": %d.%03d, "dur": %d.%03d, "args": {{{row.args}}}}}'
    )
