"""What other devices and other trainers call the same things: queues, calls, copies, and the fetch of a batch."""

from typing import Any

import pytest
from analysed import GEMM, attribution, causes, content, measured, timeline
from kineto import COMMUNICATION, COPY, Trace

from diagnose.timeline.activities import _kind
from diagnose.trace.vocabulary import DATA_WAIT, RUNTIME

MS = 1_000_000
OF_XPU = {
    "cudaLaunchKernel": "urEnqueueKernelLaunch",
    "cudaLaunchKernelExC": "urEnqueueKernelLaunchWithArgsExp",
    "cudaMemcpyAsync": "urEnqueueUSMMemcpy",
    "cudaStreamSynchronize": "urQueueFinish",
    "cudaMalloc": "urUSMDeviceAlloc",
}
COPIES_OF_XPU = {"Memcpy HtoD (Pageable -> Device)": "Memcpy M2D (MEMORY(Unknown) -> DEVICE)"}


def job() -> Trace:
    """Two steps with products, a kernel on another queue, a copy to the device, an allocation and a wait."""
    built = Trace()
    for _ in range(2):
        with built.step():
            built.copy(1_000_000, stream=COPY)
            built.malloc(300)
            for _ in range(20):
                built.op("aten::mm", [[512, 512], [512, 512]], GEMM, 100)
            built.launch("all_reduce_kernel", 3_000, COMMUNICATION)
            built.sync()
            built.host(500)
    return built


def as_of_xpu() -> dict[str, Any]:
    """The same, as Kineto writes it for XPU: a queue instead of a stream, and the words of SYCL's runtime."""
    written = content(job())
    for event in written["traceEvents"]:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            event |= {"cat": "xpu_runtime", "name": OF_XPU.get(event["name"], event["name"])}
        if "stream" in event.get("args", {}):
            event["args"]["sycl queue"] = event["args"].pop("stream")
            event["name"] = COPIES_OF_XPU.get(event["name"], event["name"])
    return written


def test_a_queue_of_xpu_is_a_stream() -> None:
    cuda, xpu = timeline(job()), timeline(as_of_xpu())

    assert len(set(cuda.gpu.stream.tolist())) == 3
    assert xpu.gpu.stream.tolist() == cuda.gpu.stream.tolist()
    assert xpu.trace.loss == cuda.trace.loss


def test_calls_of_xpu_mean_what_those_of_cuda_do() -> None:
    cuda, xpu = timeline(job()), timeline(as_of_xpu())

    assert xpu.launches == cuda.launches > 0
    assert causes(as_of_xpu()) == causes(job())
    assert {"sync", "allocation", "copy-HtoD"} <= set(attribution(as_of_xpu()).causes)
    assert measured(as_of_xpu()).timeline.steps.count == 2


@pytest.mark.parametrize("category", ["xpu_runtime", "xpu_driver", "privateuse1_runtime", "privateuse1_driver"])
def test_calls_of_other_devices_launch(category: str) -> None:
    assert category in RUNTIME


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pinned -> Device)", "HtoD"),
        ("CopyHostToDevice", "HtoD"),
        ("Memcpy M2D (MEMORY(Unknown) -> DEVICE)", "HtoD"),
        ("Memcpy H2D (HOST -> DEVICE)", "HtoD"),
        ("Memcpy D2M (DEVICE -> MEMORY)", "DtoH"),
        ("Memcpy D2D (DEVICE -> DEVICE)", "DtoD"),
        ("Memcpy S2S (SHARED -> SHARED)", "unknown"),
        ("Memcpy", "unknown"),
    ],
)
def test_the_direction_of_a_copy_is_in_its_name(name: str, direction: str) -> None:
    assert _kind(name, "gpu_memcpy") == ("memcpy", direction, None, "", frozenset())


@pytest.mark.parametrize(
    "name",
    [
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        "enumerate(DataPipe)#BatcherIterDataPipe",
        "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
        "[pl][profile][_EvaluationLoop].val_next",
        "[pl][profile]get_train_batch",
    ],
)
def test_a_fetch_of_a_batch_is_told_by_its_range(name: str) -> None:
    built = Trace()
    for _ in range(2):
        with built.step():
            with built.annotation(name, ms=5):
                pass
            built.op("aten::mm", [[512, 512], [512, 512]], GEMM, 100)

    assert causes(built)["data-wait"] > 8 * MS


@pytest.mark.parametrize("name", ["[pl][profile]run_training_batch", "[pl][profile][Strategy]X.training_step", "next"])
def test_other_ranges_are_no_fetch(name: str) -> None:
    built = Trace()
    with built.step(), built.annotation(name, ms=5):
        built.op("aten::mm", [[512, 512], [512, 512]], GEMM, 100)

    assert not len(timeline(built).rows_matching(DATA_WAIT, "user_annotation"))
