"""What the user states of the run."""

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from diagnose.formulas.critical_batch import CriticalBatch
    from diagnose.hardware import Gpu
    from diagnose.trace.exported import Monitored
    from diagnose.trace.torch_trace import TorchTraces


class Settings(msgspec.Struct, frozen=True):
    """What the user states of the run.

    Attributes:
        flops_per_step: model FLOPs of one step on one rank.
        params: parameters that a token is multiplied with.
        seq_len: tokens of one sequence.
        tokens_per_step: tokens of one step on one rank, padding included.
        mfu_as: whose count of model FLOPs MFU is stated by, one of `MFU_AS`; None for PaLM's.
        peak_tflops: dense half-precision peak of one device, TFLOP/s.
        hbm_gbs: memory bandwidth of one device, GB/s.
        gpu: the device by its name in the table of boards, where the trace does not tell it, or tells another.
        step_range: what finds the ranges that are steps, by name; None for those that are known to be.
        step: number of the one step to count; None counts all that the window holds whole.
        gpu_hour_price: of one GPU, in any currency.
        power_w: of one GPU, with its part of the host where that is meant too.
        pue: energy of the data centre over that of its computers.
        kg_per_kwh: kilograms of CO2e of a kilowatt-hour.
        tokens: to train on.
        mtbf_hours: between two failures of the whole job.
        critical_batch: above which a larger global batch buys little.
        network_gbs: of a node's network, all its cards together, one direction, GB/s.
        monitored: what a monitor has kept of the job's GPUs.
        torch_traces: what torch.compile has told of its work.
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
