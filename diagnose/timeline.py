"""One rank's trace as GPU activities linked to their launches, and the steps they belong to."""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diagnose.kernels import COMMUNICATION, Kind, bound_by, classify
from diagnose.trace import Trace
from diagnose.trace.checks import GPU_CATEGORIES

Times = NDArray[np.int64]
Mask = NDArray[np.bool_]

NOT_LAUNCHED = -1
RUNTIME = ("cuda_runtime", "cuda_driver", "runtime", "xpu_runtime", "privateuse1_runtime")
OPS = ("cpu_op", "operator")
ANNOTATIONS = ("user_annotation", *OPS)
PYTHON = ("python_function",)
COMMUNICATION_RANGES = r"gloo:|mpi:|ucc:"
DATA_WAIT = r"enumerate\(DataLoader\)#|diagnose\.data_wait"

_COPY_KIND = re.compile(r"\b(HtoD|DtoH|DtoD|PtoP|HtoH|DtoA)\b|(HostToDevice|DeviceToHost|DeviceToDevice)")
_COPY_ALIASES = {"HostToDevice": "HtoD", "DeviceToHost": "DtoH", "DeviceToDevice": "DtoD"}


@dataclass(frozen=True)
class Activities:
    """GPU activities of one device sorted by start; times in nanoseconds, `launch` is a row of the trace or -1.

    `kind` indexes `kinds`. `host_time` is when the activity was launched: its own launch, else that of the previous
    linked activity on its stream, else NOT_LAUNCHED for the head that was launched before the window.
    """

    row: Times
    start: Times
    end: Times
    stream: NDArray[np.int32]
    kind: NDArray[np.int32]
    kinds: tuple[Kind, ...]
    launch: Times
    launch_start: Times
    launch_end: Times

    def __len__(self) -> int:
        return len(self.row)

    def of_family(self, *families: str) -> Mask:
        """Mask of the activities whose kind is of one of the families."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([k.family in families for k in self.kinds], bool)[self.kind]

    @property
    def is_communication(self) -> Mask:
        """Mask of the collective kernels."""
        return self.of_family(COMMUNICATION.family)

    @property
    def is_copy(self) -> Mask:
        """Mask of copies and fills done by the copy engine."""
        return self.of_family("memcpy", "memset")

    @property
    def is_compute_bound(self) -> Mask:
        """Mask of the kernels that the matrix units bound, judged by kind."""
        if not len(self):
            return np.zeros(0, bool)
        return np.array([bound_by(k) == "compute" for k in self.kinds], bool)[self.kind]


@dataclass(frozen=True)
class StepWindows:
    """Host and device windows of the counted steps, [start, end) in nanoseconds, shape (count, 2).

    `dropped_ns` holds the device (else host) durations of the complete steps that were left out at the start.
    """

    source: str
    host: NDArray[np.int64]
    device: NDArray[np.int64]
    dropped_ns: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """Number of counted steps."""
        return len(self.host)


@dataclass(frozen=True)
class Timeline:
    """One rank: its trace, the activities of its busiest device, the threads that launched them, and its steps."""

    trace: Trace
    rank: int
    gpu: Activities
    lost_launches: int
    launches: int
    launching_threads: frozenset[tuple[int, int]]
    steps: StepWindows
    has_gpu: bool

    @property
    def windows(self) -> NDArray[np.int64]:
        """The step windows that time is accounted on: device steps, host steps without a GPU."""
        return self.steps.device if self.has_gpu else self.steps.host

    @property
    def capture_failed(self) -> bool:
        """Kernels were launched and not one GPU activity was recorded."""
        return not self.has_gpu and self.launches > 0

    @property
    def device_name(self) -> str:
        """The GPU's name, "CPU" without one, "" when the trace does not say."""
        if not self.has_gpu:
            return "CPU" if not self.capture_failed else str(self.device_properties.get("name", ""))
        return str(self.device_properties.get("name", ""))

    @property
    def device_properties(self) -> dict[str, Any]:
        """Kineto's properties of the device in use, empty when the trace has none."""
        listed = self.trace.metadata.get("deviceProperties")
        devices = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
        index = int(self.trace.pid[self.gpu.row[0]]) if len(self.gpu) else 0
        return next((d for d in devices if d.get("id") == index), devices[0] if devices else {})

    def matching(self, pattern: str, *categories: str) -> Mask:
        """Mask of the trace's events whose name matches `pattern` from its start, within `categories`."""
        expression = re.compile(pattern)
        hits = np.array([expression.match(n) is not None for n in self.trace.names], bool)
        return self.trace.named(hits) & self.trace.rows_of(*categories)


def timeline_of(trace: Trace, rank: int) -> Timeline:
    """Links and steps of one rank's trace."""
    gpu, launches, lost = _activities(trace)
    source, host = host_steps(trace)
    has_gpu = len(gpu) > 0
    steps = _device_steps(source, host, gpu) if has_gpu else _host_only(source, host)
    linked = gpu.launch[gpu.launch >= 0]
    threads = frozenset(zip(trace.pid[linked].tolist(), trace.tid[linked].tolist(), strict=True))
    return Timeline(trace, rank, gpu, lost, launches, threads, steps, has_gpu)


def _activities(trace: Trace) -> tuple[Activities, int, int]:
    rows = np.flatnonzero(trace.rows_of(*GPU_CATEGORIES))
    if len(rows):
        busiest = _busiest(trace.pid[rows], trace.dur[rows])
        rows = rows[trace.pid[rows] == busiest]
    rows = rows[np.argsort(trace.ts[rows], kind="stable")]
    launch_rows = np.flatnonzero(trace.rows_of(*RUNTIME) & (trace.correlation > 0))
    launch_rows = launch_rows[np.argsort(trace.correlation[launch_rows], kind="stable")]
    launch = _linked(trace, rows, launch_rows)
    kind, kinds = _kinds(trace, rows)
    start, end = _inherited_launch(trace, rows, launch)
    activities = Activities(
        row=rows,
        start=trace.ts[rows],
        end=trace.ts[rows] + trace.dur[rows],
        stream=trace.stream[rows],
        kind=kind,
        kinds=kinds,
        launch=launch,
        launch_start=start,
        launch_end=end,
    )
    made, lost = _lost(trace, launch_rows)
    return activities, made, lost


def _busiest(device: Times, dur: Times) -> int:
    devices, index = np.unique(device, return_inverse=True)
    return int(devices[np.argmax(np.bincount(index, weights=dur))])


def _linked(trace: Trace, rows: Times, launch_rows: Times) -> Times:
    """For each GPU row, the runtime call with its correlation, else -1."""
    correlation = trace.correlation[launch_rows]
    at = np.searchsorted(correlation, trace.correlation[rows])
    at_safe = np.minimum(at, max(len(correlation) - 1, 0))
    if not len(correlation):
        return np.full(len(rows), NOT_LAUNCHED, np.int64)
    hit = (correlation[at_safe] == trace.correlation[rows]) & (trace.correlation[rows] > 0)
    return np.where(hit, launch_rows[at_safe], NOT_LAUNCHED)


def _inherited_launch(trace: Trace, rows: Times, launch: Times) -> tuple[Times, Times]:
    """Launch times; an unlinked activity inherits those of the previous linked one on its stream."""
    start = np.where(launch >= 0, trace.ts[launch], NOT_LAUNCHED)
    end = np.where(launch >= 0, trace.ts[launch] + trace.dur[launch], NOT_LAUNCHED)
    known = launch >= 0
    for stream in np.unique(trace.stream[rows]):
        at = np.flatnonzero(trace.stream[rows] == stream)
        last = np.maximum.accumulate(np.where(known[at], np.arange(len(at)), -1))
        inherits = (last >= 0) & ~known[at]
        start[at[inherits]] = start[at[last[inherits]]]
        end[at[inherits]] = end[at[last[inherits]]]
        known[at[inherits]] = True
    absent = np.iinfo(np.int64).min
    return np.where(known, start, absent), np.where(known, end, absent)


_LAUNCHES = re.compile(r"(cuda|hip)(Ext)?(Module)?Launch(Cooperative)?Kernel|cuLaunchKernel|(cuda|hip)GraphLaunch")


def _lost(trace: Trace, launch_rows: Times) -> tuple[int, int]:
    """How many kernel launches were recorded, and how many of them have no GPU activity."""
    launches = np.array([_LAUNCHES.match(n) is not None for n in trace.names], bool)
    made = launch_rows[trace.named(launches)[launch_rows]]
    seen = trace.correlation[trace.rows_of(*GPU_CATEGORIES)]
    return len(made), int((~np.isin(trace.correlation[made], seen)).sum())


def _kinds(trace: Trace, rows: Times) -> tuple[NDArray[np.int32], tuple[Kind, ...]]:
    pairs = trace.name[rows].astype(np.int64) * len(trace.cats) + trace.cat[rows]
    distinct, index = np.unique(pairs, return_inverse=True)
    kinds = [_kind(trace.names[p // len(trace.cats)], trace.cats[p % len(trace.cats)]) for p in distinct]
    unique = tuple(dict.fromkeys(kinds))
    number = {k: i for i, k in enumerate(unique)}
    return np.array([number[k] for k in kinds], np.int32)[index] if len(rows) else np.zeros(0, np.int32), unique


def _kind(name: str, category: str) -> Kind:
    category = category.lower()
    if category.endswith("memset"):
        return Kind("memset", "memset", False)
    if category.endswith("memcpy"):
        match = _COPY_KIND.search(name)
        return Kind("memcpy", _COPY_ALIASES.get(match[0], match[0]) if match else "unknown", False)
    return classify(name)


def host_steps(trace: Trace) -> tuple[str, NDArray[np.int64]]:
    """Where the steps come from, and their host windows in order, shape (n, 2)."""
    annotations = trace.rows_of(*ANNOTATIONS)
    for source, prefix in (("ProfilerStep", "ProfilerStep"), ("diagnose.step", "diagnose.step")):
        named = np.array([n.startswith(prefix) for n in trace.names], bool)
        rows = np.flatnonzero(trace.named(named) & annotations)
        if len(rows):
            windows = np.stack((trace.ts[rows], trace.ts[rows] + trace.dur[rows]), axis=1)
            return source, windows[np.argsort(windows[:, 0], kind="stable")]
    ends = _optimizer_ends(trace, annotations)
    if len(ends) >= 2:
        return "Optimizer.step", np.stack((ends[:-1], ends[1:]), axis=1)
    ends = _optimizer_kernel_bursts(trace)
    if len(ends) >= 2:
        return "optimizer kernels", np.stack((ends[:-1], ends[1:]), axis=1)
    return "window", _whole_window(trace)


def _optimizer_ends(trace: Trace, annotations: Mask) -> Times:
    """Ends of the optimizer that steps least often: with several optimizers a step ends once."""
    found = []
    for number, name in enumerate(trace.names):
        if name.startswith("Optimizer.step#"):
            rows = annotations & (trace.name == number)
            if rows.any():
                found.append(np.sort((trace.ts + trace.dur)[rows]))
    return min(found, key=len) if found else np.zeros(0, np.int64)


def _optimizer_kernel_bursts(trace: Trace) -> Times:
    """Launch times at the end of each burst of optimizer kernels, for optimizers that leave no annotation."""
    families = np.array([classify(n).family == "optimizer" for n in trace.names], bool)
    gpu = np.flatnonzero(trace.rows_of("kernel"))
    order = gpu[np.argsort(trace.ts[gpu], kind="stable")]
    optimizer = trace.named(families)[order]
    if not optimizer.any():
        return np.zeros(0, np.int64)
    last = np.flatnonzero(optimizer & ~np.concatenate((optimizer[1:], [False])))
    ends = (trace.ts + trace.dur)[order[last]]
    if len(ends) < 2:
        return np.zeros(0, np.int64)
    far = np.diff(ends) > 0.5 * np.median(np.diff(ends))
    return ends[np.concatenate((far, [True]))]


def _whole_window(trace: Trace) -> NDArray[np.int64]:
    used = trace.rows_of(*GPU_CATEGORIES, *RUNTIME, *ANNOTATIONS, *PYTHON)
    if not used.any():
        used = np.ones(len(trace), bool)
    return np.array([[trace.ts[used].min(), (trace.ts + trace.dur)[used].max()]], np.int64)


def _device_steps(source: str, host: NDArray[np.int64], gpu: Activities) -> StepWindows:
    """Step k ends on the device when the last activity launched during host steps up to k ends."""
    if source in ("window", "optimizer kernels"):
        first, last = min(int(host[0, 0]), int(gpu.start.min())), int(gpu.end.max())
        host = host if source != "window" else np.array([[first, max(int(host[-1, 1]), last)]])
        device = np.clip(host, first, last)
        return _counted(source, host, device, np.ones(len(host), bool))
    step = np.searchsorted(host[:, 1], gpu.launch_start, side="right")
    head = gpu.launch_start < host[0, 0]
    begin = max(int(host[0, 0]), int(gpu.end[head].max(initial=np.iinfo(np.int64).min)))
    launched, ends, reached = np.zeros(len(host), bool), [], begin
    for k in range(len(host)):
        own = gpu.end[(step == k) & ~head]
        launched[k] = len(own) > 0
        reached = max(reached, int(own.max(initial=reached)))
        ends.append(reached)
    device = np.stack((np.array([begin, *ends[:-1]]), np.array(ends)), axis=1)
    return _counted(source, host, device, launched & (device[:, 1] > device[:, 0]))


def _host_only(source: str, host: NDArray[np.int64]) -> StepWindows:
    return _counted(source, host, host, host[:, 1] > host[:, 0])


def _counted(source: str, host: NDArray[np.int64], device: NDArray[np.int64], keep: Mask) -> StepWindows:
    """Leaves out steps without work, and the first one, which still holds the start of the capture."""
    rows = np.flatnonzero(keep)
    dropped: tuple[int, ...] = ()
    if len(rows) >= 3:
        dropped = (int(device[rows[0], 1] - device[rows[0], 0]),)
        rows = rows[1:]
    if not len(rows):
        rows = np.arange(len(host))
    return StepWindows(source, host[rows], device[rows], dropped)
