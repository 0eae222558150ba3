"""What a trace's fields may wrongly hold: shapes, names, links, fields of collectives, metadata."""

from typing import Any

LINKS = ("correlation", "External id", "stream", "device", "context", "Device Id", "Ev Idx", "Fwd thread id")
COLLECTIVE = (
    "Collective name", "In msg nelems", "Out msg nelems", "Group size", "dtype", "Process Group Name", "Seq",
    "Process Group Ranks", "Process Group Description", "Rank", "Src Rank", "Dst Rank", "In split size",
    "Out split size",
)  # fmt: skip
DIMS: tuple[Any, ...] = (
    [], [[]], [[0]], [[], []], [[0, 0], [0, 0]], [[1], [1]], [[64, 64]], [[-1, 64], [64, 64]], [["64", "64"], [64, 64]],
    [[2**40, 2**40], [2**40, 2**40]], [[2**62] * 4] * 3, [[1e306, 2], [2, 2]], [[64, 64], None], [None, None], None,
    "[[64, 64], [64, 64]]", 7, [64, 64], [[[64, 64], [64, 64]]], [[1] * 30] * 2, [[64, 63], [62, 61]], {}, [{}], [[{}]],
    [[8, 8, 128]] * 3, [[2, 8, 0, 64]] * 3, [[2, 8, 128, 64]], [[2, 3], [4, 5, 6], [7]], [[True, False]],
    [[1.5, 2.5]] * 2, [[10**30, 2], [2, 10**30]],
)  # fmt: skip
NAMES = (
    "aten::mm",
    "aten::bmm",
    "aten::addmm",
    "aten::convolution",
    "aten::convolution_backward",
    "aten::_convolution",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_flash_attention_backward",
    "aten::einsum",
    "aten::_efficient_attention_forward",
    "aten::_grouped_mm",
    "aten::_scaled_mm",
    "aten::embedding",
    "aten::cat",
    "aten::index_put_",
    "aten::copy_",
    "aten::native_layer_norm_backward",
    "aten::linear",
    "aten::matmul",
    "aten::to",
    "record_param_comms",
    "cudaLaunchKernel",
    "cudaStreamSynchronize",
    "cudaMemcpyAsync",
    "cudaGraphLaunch",
    "Optimizer.step#AdamW.step",
    "Optimizer.zero_grad#AdamW.zero_grad",
    "DistributedDataParallel.forward",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
    "Memcpy HtoD (Pageable -> Device)",
    "[memory]",
    "Python GC",
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "ProfilerStep#10",
    "diagnose.save",
    "nccl:all_reduce",
    "autograd::engine::evaluate_function: MmBackward0",
    "CompiledFunction",
    "triton_poi_fused_add_mul_0",
    "",
)
_DEVICES: list[Any] = [
    [], None, [{}], [None], {}, "x", [{"id": 0, "name": None}], [{"name": "A", "numSms": -1, "totalGlobalMem": 0}],
]  # fmt: skip
METADATA: dict[str, list[Any]] = {
    "deviceProperties": _DEVICES,
    "distributedInfo": [
        None,
        [],
        {},
        {"rank": -1},
        {"rank": "1", "world_size": 0},
        {"rank": 2**63, "world_size": 2**63},
        {"rank": 1.5},
        {"pg_config": 7},
        {"pg_config": [None, {"ranks": "0"}]},
        {"world_size": 10**12},
    ],
    "baseTimeNanoseconds": [0, -1, 2**63, 10**400, "x", None, 1.5],
    "schemaVersion": [0, "x", None],
    "traceName": [None, 7, "../../x", "\ud800"],
    "displayTimeUnit": ["ns", 7, None],
    "traceEvents": [None, {}, "x", 7, [], [None], [[]], [{}], [[{}]]],
}
