"""Which column of a log is what, told by its name, and in which unit."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

UNITS_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_SPELLED = {
    "s": "s sec secs second seconds",
    "ms": "ms msec millis millisecond milliseconds",
    "us": "us usec micros microsecond microseconds",
    "ns": "ns nsec nanos nanosecond nanoseconds",
}
_UNIT_OF = {spelling: unit for unit, spellings in _SPELLED.items() for spelling in spellings.split()}
_NAMES = {
    "step": "step global_step trainer_global_step iteration iter it train_step num_steps update optimizer_step",
    "duration": "step_time time_per_step step_duration iter_time iteration_time time_per_iteration time_per_iter "
    "elapsed_time_per_iteration train_step_time batch_time step_latency duration perf_step_time train_step_timing",
    "rate": "steps_per_second steps_per_sec steps_per_s step_per_second it_per_s iter_per_s iterations_per_second its",
    "time": "time",
    "clock": "timestamp wall_time walltime datetime date ts elapsed elapsed_time runtime train_runtime time_elapsed",
    "rank": "rank global_rank process_index process_rank worker_rank world_rank",
    "host": "host hostname node node_name nodename machine instance node_id",
    "compute": "compute compute_time gpu_time forward_backward_time fwd_bwd_time fwd_bwd busy_time",
    "wait": "wait wait_time comm_wait sync_wait barrier_time sync_time comm_time allreduce_time communication_time "
    "collective_time",
    "data": "data_time data_wait data_wait_time dataloader_time data_load_time data_loading_time load_time",
}
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_TIMES = ("duration", "rate", "time", "clock")
PARTS = ("compute", "wait", "data")


@dataclass(frozen=True)
class Column:
    """A column of a log: its position, its name, its role, and its unit ("" when the name states none)."""

    at: int
    name: str
    role: str
    unit: str = ""


def column(at: int, name: str) -> Column | None:
    """The column called `name`, None when it says nothing about step times."""
    words = re.sub(r"[^a-z0-9]+", "_", name.strip().lower().replace("µ", "u")).strip("_")
    words = re.sub(r"^(?:it|iter|steps)_(?:s|sec)$", "its", words)
    if words in _ROLE_OF:
        return Column(at, name, _ROLE_OF[words])
    base, _, last = words.rpartition("_")
    if last in _UNIT_OF and base in _ROLE_OF and _ROLE_OF[base] not in ("step", "rank", "host", "rate"):
        return Column(at, name, _ROLE_OF[base], _UNIT_OF[last])
    return None


def columns(names: Sequence[str]) -> dict[str, Column]:
    """The first column of each role."""
    of_role: dict[str, Column] = {}
    for at, name in enumerate(names):
        one = column(at, name)
        if one is not None:
            of_role.setdefault(one.role, one)
    return of_role


def timed(of_role: dict[str, Column]) -> Column | None:
    """The column that tells step times: a duration before a rate before a clock."""
    return next((of_role[role] for role in _TIMES if role in of_role), None)


def fits(of_role: dict[str, Column]) -> bool:
    """Whether the columns are those of a log of step times."""
    return "step" in of_role and timed(of_role) is not None
