"""Read what `diagnose fit --json` wrote: the predicted step of a job, on one number of GPUs or several."""

import math
from dataclasses import dataclass
from pathlib import Path

import msgspec

from diagnose.decoding import UNREADABLE, has_endless_number
from diagnose.diagnosis.reading import LARGEST_BYTES
from diagnose.diagnosis.terms import Estimate
from diagnose.errors import UserError
from diagnose.facts import Scalar
from diagnose.predict.job_run import MOST_GPUS, JobRun
from diagnose.trace.source import opened

OLDEST, NEWEST = 2, 2  # versions of the forecast whose keys mean the same
_END = 1.2816  # standard deviations from the middle to an end of the range, beyond which one run in ten lies
_ABSENT = msgspec.Raw(b"")
_LEAST_S, _MOST_S = 1e-6, 1e9
_MOST_TOKENS = 10**15  # of a step
_SETTINGS = ("dtype", "optimizer", "checkpointing", "liger", "micro_batch", "accumulation", "compiled")
_AS_SEEN = {"micro_batch": "micro_batch_size", "accumulation": "accumulation_steps", "compiled": "is_compiled"}


class _Keys(msgspec.Struct):
    schema_version: msgspec.Raw = _ABSENT
    plan: msgspec.Raw = _ABSENT
    step: msgspec.Raw = _ABSENT
    launch: msgspec.Raw = _ABSENT


class _Division(msgspec.Struct):
    dp: int
    tp: int
    pp: int
    zero: int


class _Plan(msgspec.Struct):
    name: str
    gpus: int
    nodes: int
    gpu: str
    parameters: int
    dtype: str
    optimizer: str
    checkpointing: str
    liger: bool
    compiled: bool
    micro_batch: int
    accumulation: int
    sharding: _Division


class _Step(msgspec.Struct):
    seconds: float
    seconds_range: tuple[float, float]
    tokens: int


class _Configuration(msgspec.Struct):
    plan: _Plan
    step: _Step


class _Forecast(_Configuration):
    schema_version: int
    by_gpus: tuple[_Configuration, ...] = ()


@dataclass(frozen=True)
class PlannedRun:
    """A job before it runs.

    Attributes:
        gpus: of the job.
        nodes: that they are in.
        device: their board.
        parameters: of the model.
        tokens: of a step of the job.
        seconds: of a step, [low, likely, high].
        settings: of the job, by the names that a diagnosis has for them where it has some.
    """

    gpus: int
    nodes: int
    device: str
    parameters: int
    tokens: int
    seconds: Estimate
    settings: dict[str, Scalar]

    def job_run(self, source: str) -> JobRun:
        """The run of a scaling table; its noise is the uncertainty of the forecast."""
        low, likely, high = self.seconds
        return JobRun(
            source,
            self.gpus,
            nodes=self.nodes,
            step_s=likely,
            tokens_per_step=float(self.tokens),
            noise_share=math.log(high / low) / (2 * _END),
        )


def planned_run(path: Path) -> PlannedRun | None:
    """The forecast at `path`; None if the file is none.

    Raises:
        UserError: it is damaged, or of another version.
    """
    forecast = _read(path)
    return None if forecast is None else _run(forecast, path)


def planned_runs(path: Path) -> tuple[PlannedRun, ...]:
    """The forecasts of the file, one for each number of GPUs; empty if it holds none.

    Raises:
        UserError: it is damaged, or of another version.
    """
    forecast = _read(path)
    return () if forecast is None else tuple(_run(each, path) for each in forecast.by_gpus or (forecast,))


def _read(path: Path) -> _Forecast | None:
    if path.suffix.lower() != ".json" or not path.is_file() or path.stat().st_size > LARGEST_BYTES:
        return None
    with opened(path, "the forecast") as file:
        content = file.read()
    try:
        keys = msgspec.json.decode(content, type=_Keys)
    except UNREADABLE:
        return None
    if not (keys.schema_version and keys.plan and keys.step and keys.launch):
        return None
    if has_endless_number(content):
        raise _unusable(path, "it has a number of a hundred digits")
    try:
        forecast = msgspec.json.decode(content, type=_Forecast)
    except UNREADABLE as error:
        raise _unusable(path, str(error)) from error
    if not OLDEST <= forecast.schema_version <= NEWEST:
        raise _unusable(path, f"its schema_version is {forecast.schema_version}, not {NEWEST}")
    return forecast


def _run(made: _Configuration, path: Path) -> PlannedRun:
    plan, step = made.plan, made.step
    low, high = step.seconds_range
    in_order = _LEAST_S <= low <= step.seconds <= high <= _MOST_S
    if not (in_order and 0 < step.tokens <= _MOST_TOKENS and 0 < plan.gpus <= MOST_GPUS):
        raise _unusable(path, "its times or GPUs are impossible")
    if not 0 < plan.nodes <= plan.gpus:
        raise _unusable(path, "it has more nodes than GPUs")
    division = plan.sharding
    settings: dict[str, Scalar] = {_AS_SEEN.get(name, name): getattr(plan, name) for name in _SETTINGS}
    settings["division"] = f"dp={division.dp} tp={division.tp} pp={division.pp} zero={division.zero}"
    seconds = (low, step.seconds, high)
    return PlannedRun(plan.gpus, plan.nodes, plan.gpu, plan.parameters, step.tokens, seconds, settings)


def _unusable(path: Path, why: str) -> UserError:
    return UserError("cannot use the forecast", where=path, why=why, do="make it again: diagnose fit ... --json")
