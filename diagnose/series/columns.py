"""Recognise the columns of a log by their names, and their units."""

import re
from collections.abc import Sequence

import msgspec

from diagnose.errors import printable

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
    "batch": "global_batch_size gbs train_batch_size total_train_batch_size",
    "gpus": "gpus num_gpus n_gpus gpu_count accelerators num_accelerators world_size",
    "data": "data_time data_wait data_wait_time dataloader_time data_load_time data_loading_time load_time",
}
_JOB = ["system", "job", "job_name", "benchmark", "model", "experiment", "project"]
_RUN = ["run", "run_name", "run_id", "source_path", "trial"]
_EVENT = ["event", "events", "message", "note", "comment", "phase"]
_MOST_EVENT_COLUMNS = 20
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_TIMES = ("duration", "rate", "time", "clock")
PARTS = ("compute", "wait", "data")
_SECTION = re.compile(r"\s*(?:train|trainer|training|perf)/", re.IGNORECASE)
_IN_SECTION = ("step", "duration")  # a clock or a rate there is often the whole run's: train/train_runtime
LOG_CALLS = "_step"  # W&B's: the calls of wandb.log
_WRITERS = {"train/global_step": "transformers Trainer", "trainer/global_step": "Lightning"}
_RATE = re.compile(r"(?:[ _-]per[ _-]|/\s*)(?:s|sec|secs|second)\W*\Z", re.IGNORECASE)


class LogColumn(msgspec.Struct, frozen=True):
    """A column of a log: its position, its name, its role, and its unit ("" when the name states none)."""

    at: int
    name: str
    role: str
    unit: str = ""


class Stated(msgspec.Struct, frozen=True):
    """The user's statements about a log: its column of steps, its column of times, and the unit of times."""

    step: str | None = None
    time: str | None = None
    unit: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are named."""
        return tuple(name for name in (self.step, self.time) if name is not None)


NOTHING_STATED = Stated()


def column(at: int, name: str) -> LogColumn | None:
    """The column called `name`, None if it is not about step times."""
    role, unit = _role_and_unit(name)
    if role is None and _SECTION.match(name):
        role, unit = _role_and_unit(_SECTION.sub("", name, count=1))
        role = role if role in _IN_SECTION else None
    return None if role is None else LogColumn(at, name, role, unit)


def _role_and_unit(name: str) -> tuple[str | None, str]:
    """The role that a name stands for, and the unit that it ends with."""
    words = re.sub(r"^(?:it|iter|steps)_(?:s|sec)$", "its", _words(name))
    if words in _ROLE_OF:
        return _ROLE_OF[words], ""
    base, _, last = words.rpartition("_")
    if last in _UNIT_OF and _ROLE_OF.get(base) not in ("step", "rank", "host", "rate"):
        return _ROLE_OF.get(base), _UNIT_OF[last]
    return None, ""


def _words(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower().replace("µ", "u")).strip("_")


def writer_of(step: LogColumn) -> str:
    """The trainer that calls its step so, "" if any may."""
    return _WRITERS.get(step.name.strip(), "")


def columns(names: Sequence[str], stated: Stated = NOTHING_STATED) -> dict[str, LogColumn]:
    """The first column of each role; what the user stated comes first, and W&B's count of log calls last.

    Raises:
        ValueError: a stated column is not among the names, or holds no times; the message names it.
    """
    of_role: dict[str, LogColumn] = {}
    if stated.step is not None:
        of_role["step"] = LogColumn(_at(names, stated.step), stated.step, "step")
    if stated.time is not None:
        times = _of_times(_at(names, stated.time), stated.time)
        of_role[times.role] = times
    taken = {one.at for one in of_role.values()}
    free = [one for at, name in enumerate(names) if at not in taken and (one := column(at, name)) is not None]
    for one in sorted(free, key=lambda one: one.name.strip() == LOG_CALLS):
        if stated.time is None or one.role not in _TIMES:
            of_role.setdefault(one.role, one)
    return of_role


def _at(names: Sequence[str], stated: str) -> int:
    stripped = [name.strip() for name in names]
    if stated.strip() not in stripped:
        raise ValueError(f"no column {printable(stated)[:200]} in the log")
    return stripped.index(stated.strip())


def _of_times(at: int, name: str) -> LogColumn:
    """A column stated to hold times: the role by its name, else a duration, or a clock if it grows with the step."""
    role, unit = _role_and_unit(_SECTION.sub("", name, count=1))
    if role in _TIMES:
        return LogColumn(at, name, role, unit)
    if _RATE.search(name):
        raise ValueError(f"{printable(name)[:200]} is a rate of something else than steps")
    return LogColumn(at, name, "time", _UNIT_OF.get(_words(name).rpartition("_")[2], ""))


def label_columns(names: Sequence[str]) -> tuple[list[int], list[int]]:
    """The places of the columns that name a row's job, and of those that name its run."""
    words = [_words(name) for name in names]
    return ([at for at, one in enumerate(words) if one in _JOB], [at for at, one in enumerate(words) if one in _RUN])


def event_columns(names: Sequence[str]) -> dict[int, str]:
    """Columns with other events: by position, "evaluation", "epoch", or "" if the cell is words."""
    told: dict[int, str] = {}
    for at, name in enumerate(names):
        if len(told) == _MOST_EVENT_COLUMNS:
            break
        words = _words(name)
        if words.startswith(("eval_", "val_", "valid_", "validation_")):
            told[at] = "evaluation"
        elif words in ("epoch", "train_epoch"):
            told[at] = "epoch"
        elif words in _EVENT:
            told[at] = ""
    return told


def timed(of_role: dict[str, LogColumn]) -> LogColumn | None:
    """The column of step times: a duration before a rate before a clock."""
    return next((of_role[role] for role in _TIMES if role in of_role), None)


def fits(of_role: dict[str, LogColumn]) -> bool:
    """Whether the columns are those of a log of step times."""
    return "step" in of_role and timed(of_role) is not None
