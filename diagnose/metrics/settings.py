"""The user's statements about the run."""

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from diagnose.formulas.critical_batch import CriticalBatch
    from diagnose.hardware import Gpu
    from diagnose.hardware.measured import MeasuredMachine
    from diagnose.trace.exported import Monitored
    from diagnose.trace.torch_trace import TorchTraces


class Settings(msgspec.Struct, frozen=True):
    """The user's statements about the run.

    Attributes:
        flops_per_step: model FLOPs of one step on one rank.
        params: parameters that a token is multiplied with.
        seq_len: tokens of one sequence.
        tokens_per_step: tokens of one step on one rank, padding included.
        mfu_as: the project whose convention of model FLOPs MFU uses, one of `MFU_AS`; None for PaLM's.
        peak_tflops: dense half-precision peak of one device, TFLOP/s.
        hbm_gbs: memory bandwidth of one device, GB/s.
        gpu: the device by its name in the table of boards, if the trace does not name it, or names another.
        step_range: pattern for the names of ranges that are steps; None for the known ones.
        step: number of the one step to count; None counts all whole steps of the window.
        gpu_hour_price: price of an hour of one GPU, in any currency.
        power_w: power of one GPU, with its part of the host if that is to be included.
        pue: energy of the data centre over that of its computers.
        kg_per_kwh: kilograms of CO2e of a kilowatt-hour.
        tokens: number of tokens to train on.
        mtbf_hours: mean hours between two failures of the whole job.
        critical_batch: global batch above which a larger one gains little.
        network_gbs: rate of a node's network, all its cards together, one direction, GB/s; in place of its ports.
        monitored: a monitor's records of the job's GPUs.
        torch_traces: torch.compile's logs of its work.
        measured: rates that machines of the user's reach.
    """

    flops_per_step: float | None = None
    params: float | None = None
    seq_len: float | None = None
    tokens_per_step: float | None = None
    mfu_as: str | None = None
    peak_tflops: float | None = None
    hbm_gbs: float | None = None
    gpu: "Gpu | None" = None
    step_range: re.Pattern[str] | None = None
    step: int | None = None
    gpu_hour_price: float | None = None
    network_gbs: float | None = None
    power_w: float | None = None
    pue: float | None = None
    kg_per_kwh: float | None = None
    tokens: float | None = None
    mtbf_hours: float | None = None
    critical_batch: "CriticalBatch | None" = None
    monitored: "Monitored | None" = None
    torch_traces: "TorchTraces | None" = None
    measured: "tuple[MeasuredMachine, ...]" = ()
