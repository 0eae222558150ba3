"""Synthetic text logs after the real forms of training loops: made here, line by line, from a list of step times."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np

BEGIN = datetime(2026, 1, 5, 10, 0, 0, tzinfo=UTC)
STALL = 150  # the step at which each of them stalls


def step_times(steps: int = 200, stall_s: float = 20.0) -> list[float]:
    """Steps of 0.5 s with 2 % of noise, of which step 150 takes `stall_s` more."""
    noise = np.random.default_rng(0).normal(size=steps)
    return [float(0.5 * np.exp(0.02 * noise[i]) + stall_s * (i + 1 == STALL)) for i in range(steps)]


def _clocks(seconds: Sequence[float]) -> list[datetime]:
    return [BEGIN + timedelta(seconds=float(at)) for at in np.cumsum(seconds)]


def _milli(clock: datetime) -> str:
    return f"{clock:%Y-%m-%d %H:%M:%S},{clock.microsecond // 1000:03}"


def torchtitan(seconds: Sequence[float], rank: str = "[rank0]:") -> list[str]:
    """One line a step, coloured, with milliseconds; a collection of garbage before the stall."""
    lines = []
    for step, clock in enumerate(_clocks(seconds), 1):
        head = f"{rank}[titan] {_milli(clock)} - root - INFO - "
        if step == STALL:
            lines.append(f"{head}[GC] Performing periodical GC collection. 19.80 seconds.")
        lines.append(
            f"{head}\x1b[31mstep: {step:2}  \x1b[32mloss:  6.1384  \x1b[38;2;54;234;195mgrad_norm:  1.2345  "
            f"\x1b[36mmemory: 49.66GiB(52.28%)  \x1b[34mtps: 5,856  \x1b[35mtflops: 339.16  mfu: 34.29%\x1b[39m"
        )
    return lines


def megatron(seconds: Sequence[float]) -> list[str]:
    """Durations, a clock of whole seconds, the batch and the number of ranks."""
    lines = ["using world size: 16, data-parallel size: 4, tensor-model-parallel size: 4"]
    for step, (took, clock) in enumerate(zip(seconds, _clocks(seconds), strict=True), 1):
        lines.append(
            f" [{clock:%Y-%m-%d %H:%M:%S}] iteration {step:8}/ {len(seconds):8} | consumed samples: {step * 128:12} |"
            f" elapsed time per iteration (ms): {1000 * took:.1f} | throughput per GPU (TFLOP/s/GPU): 118.7 |"
            f" learning rate: 1.395349E-07 | global batch size: {128:5} | lm loss: 1.044022E+01 | loss scale: 1.0 |"
            " grad norm: 26.305 | number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
        if step == STALL - 1:
            lines.append("NCCL WARN NET/IB: Got completion with error 12, retrying")
    return lines


def nemo(seconds: Sequence[float]) -> list[str]:
    """Steps from 0, durations, no clock; a validation loss stands in each line."""
    return [
        f"Training epoch 0, iteration {i}/{len(seconds) - 1} | lr: 3e-05 | consumed_samples: {i + 1}"
        f" | global_batch_size: 1 | global_step: {i} | reduced_train_loss: 1.233"
        f" | train_step_timing in s: {took:.5f} | val_loss: 4.106"
        for i, took in enumerate(seconds)
    ]


def nemo_bar(seconds: Sequence[float]) -> list[str]:
    """The progress bar of Lightning with NeMo's metrics, overwritten by carriage returns."""
    bars = [
        f"Epoch 0: :  10%|█         | {i + 1}/1000 [{int(at) // 60:02}:{int(at) % 60:02}<16:39, v_num=x,"
        f" reduced_train_loss=1.230, global_step={i}.000, consumed_samples=8.000, train_step_timing in s={took:.4f}]"
        for i, (took, at) in enumerate(zip(seconds, np.cumsum(seconds), strict=True))
    ]
    return ["\r".join(bars)]


def deepspeed(seconds: Sequence[float]) -> list[str]:
    """The pipeline engine's line of each step, and that of the engine's logger beside it every ten."""
    lines = []
    for step, (took, clock) in enumerate(zip(seconds, _clocks(seconds), strict=True), 1):
        if step % 10 == 0:
            head = f"[{_milli(clock)}] [INFO] [logging.py:96:log_dist] [Rank 0]"
            lines.append(f"{head} step={step}, skipped=0, lr=[5e-05], mom=[[0.9, 0.999]]")
        lines.append(f"steps: {step} loss: 5.5508 iter time (s): {took:.3f} samples/sec: {64 / took:.3f}")
    return lines


def deepspeed_clock(seconds: Sequence[float]) -> list[str]:
    """The engine's logger alone: each step with a clock."""
    return [
        f"[{_milli(clock)}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[5e-05], mom=[[0.9]]"
        for step, clock in enumerate(_clocks(seconds), 1)
    ]


def mllog(seconds: Sequence[float]) -> list[str]:
    """MLPerf's log: it counts samples, 64 in a step, with a summary of each 50 steps under a count of its own."""

    def line(key: str, clock: datetime, value: object, **about: object) -> str:
        entry = {"namespace": "", "time_ms": int(clock.timestamp() * 1000), "event_type": "POINT_IN_TIME", "key": key}
        return "0: :::MLLOG " + json.dumps(entry | {"value": value, "metadata": {"file": "x.py", "lineno": 1} | about})

    lines = [line("global_batch_size", BEGIN, 64)]
    for step, (took, clock) in enumerate(zip(seconds, _clocks(seconds), strict=True), 1):
        lines.append(
            line("tracked_stats", clock, {"train_step_time": took, "reduced_train_loss": 5.0}, step=64.0 * step)
        )
        if step % 50 == 0:
            lines.append(
                line("tracked_stats", clock, {"train_step_time": 0.6, "throughput": 99.0}, step=step // 50 * 64)
            )
    return lines


def printed(seconds: Sequence[float]) -> list[str]:
    """A loop of one's own that prints loss and time."""
    return [f"step {step} | loss 2.31 | lr 6.00e-04 | dt {1000 * took:.2f}ms" for step, took in enumerate(seconds, 1)]


LOGS: dict[str, Callable[[Sequence[float]], list[str]]] = {
    "torchtitan": torchtitan,
    "megatron": megatron,
    "nemo": nemo,
    "nemo_bar": nemo_bar,
    "deepspeed": deepspeed,
    "deepspeed_clock": deepspeed_clock,
    "mllog": mllog,
    "printed": printed,
}
