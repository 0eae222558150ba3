"""A trace whose compute stream waits for its collectives, with the waits recorded as enable_cuda_sync_events does."""

from typing import Any

from kineto import COMMUNICATION, COMPUTE, Trace

RECORD = 900_000  # what is added to a wait's correlation for that of the record it waits for


def steps(count: int = 3) -> Trace:
    """Steps of two products and one collective that the second step half waits for."""
    job = Trace(world=2)
    for _ in range(count):
        with job.step():
            job.op("aten::mm", [[512, 512], [512, 512]], kernel="nvjet_tst_128x256", gpu_us=300)
            job.collective("allreduce", 1 << 20, gpu_us=500, wait=True)
            job.op("aten::mul", [[512, 512], []], kernel="vectorized_elementwise_kernel", gpu_us=40)
            job.item()
    return job


def with_waits(text: dict[str, Any]) -> dict[str, Any]:
    """The trace with a cudaEventRecord before each cudaStreamWaitEvent, and what the device recorded of the wait."""
    events: list[dict[str, Any]] = []
    for event in text["traceEvents"]:
        if event["name"] == "cudaStreamWaitEvent":
            number = event["args"]["correlation"]
            events.append({**event, "name": "cudaEventRecord", "ts": event["ts"] - 1, "dur": 0.5,
                           "args": {**event["args"], "correlation": RECORD + number}})  # fmt: skip
        events.append(event)
        if event["name"] == "cudaStreamWaitEvent":
            events.append(_waited(event, number))
    return {**text, "traceEvents": events}


def _waited(call: dict[str, Any], number: int) -> dict[str, Any]:
    args = {"cuda_sync_kind": "Stream Wait Event", "stream": COMPUTE, "correlation": number, "device": 0, "context": 1,
            "wait_on_stream": COMMUNICATION, "wait_on_cuda_event_record_corr_id": RECORD + number}  # fmt: skip
    return {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": COMPUTE,
            "ts": call["ts"] + call["dur"], "dur": 0.25, "args": args}  # fmt: skip
