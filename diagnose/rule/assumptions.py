"""The assumptions of advice where a fact that could speak against it is unknown, by fact.

Each reads on from "it is assumed that". A rule asks for the facts of its preconditions, and for those in whose place
its condition takes a default.
"""

from collections.abc import Iterable, Mapping

from diagnose.facts import Facts

ASSUMED: Mapping[str, str] = {
    "accumulation_steps": "gradients are accumulated over several batches",
    "all_to_all_share": "it is no exchange of experts",
    "allocator_caches": "the allocator caches memory",
    "compile_mode": "it is not compiled with CUDA graphs already",
    "compile_share": "no compilation lies in the window",
    "compute_capability": "the GPU has tensor cores for the type",
    "compute_share": "the kernels are not at their best already",
    "cpu_optimizer_can_fuse": "torch has a fused form of the optimizer",
    "cpu_multiplies_bf16": "the CPU multiplies bf16",
    "data_wait_share": "the step does not wait for data",
    "detects_anomalies": "anomaly detection is off",
    "deterministic": "the job does not ask for deterministic algorithms",
    "embeds_vocabulary": "the embedding is no vocabulary of a language model",
    "empties_cache": "nothing empties the allocator's cache",
    "expandable_segments": "segments do not expand already",
    "exposed_communication_share": "communication is hidden",
    "flash_blocked_by": "nothing blocks the flash kernels",
    "fp8_share": "products do not run in fp8 already",
    "fsdp_prefetches_forward": "FSDP does not prefetch already",
    "fsdp_sharding": "FSDP does not shard so already",
    "gpu_busy_share": "the GPU is busy",
    "gpu_events_lost_share": "no GPU activity is lost",
    "gpu_vendor": "the GPU is NVIDIA's",
    "gpus_of_process": "the process drives one GPU",
    "gradients_are_bucket_views": "gradients are not views of the buckets already",
    "half_product_share": "most products are not in half precision already",
    "has_gpu": "a GPU computes",
    "hybrid_state_bytes": "the memory of one node holds the training state",
    "infiniband_devices": "the host has InfiniBand",
    "is_compiled": "the model is not compiled already",
    "larger_batch_factor": "a larger batch fits in memory",
    "launches_block": "launches return at once (no CUDA_LAUNCH_BLOCKING)",
    "least_fused_loss_left_share": "the fused loss is faster at these sizes",
    "liger_asked": "Liger's kernels are not in use already",
    "liger_supported": "Liger has kernels for the model",
    "loader_worker_room": "the host has cores for another worker",
    "loader_workers": "the loader has no workers yet",
    "loader_workers_bound": "loader workers may use all cores of the rank",
    "matmul_efficiency_share": "the products are not at their best already",
    "memory_free_share": "device memory is free",
    "memory_total_bytes": "device memory is free",
    "micro_steps_per_update": "one micro-batch makes an update",
    "misaligned_slowdown_factor": "the sizes slow these products",
    "optimizer_faster_form": "the optimizer has a faster form",
    "optimizer_host_share": "the optimizer does not run on the host",
    "overlap_room_share": "there is work to hide the rest behind",
    "own_python_share": "the Python code is your own",
    "padding_kind": "batches have few lengths",
    "pinned_memory": "batches are not in pinned memory already",
    "pipeline_share": "there are no pipeline stages",
    "power_brake_share": "nothing holds the clock down",
    "power_throttle_share": "nothing holds the clock down",
    "precision": "the job computes in fp32",
    "recompute_host_share": "recomputing takes no time of the host",
    "secondary_shard_ranks": "ZeRO++ keeps no second copy of the parameters",
    "static_graph": "the graph is not declared static already",
    "straggler_cause": "no rank is late",
    "straggler_cure_share": "no rank is late",
    "syncs_per_step": "the step does not wait for the device",
    "thermal_throttle_share": "nothing holds the clock down",
    "trains": "the job trains",
    "transfer_share": "it is transfer, and not waiting for a late rank",
    "uses_cuda_graphs": "no CUDA graph is launched already",
    "unused_parameter_bytes": "each parameter gets a gradient",
    "updates_on_host": "the optimizer updates on the GPU",
    "waiting_share": "it is transfer, and not waiting for a late rank",
    "math_attention_share": "attention does not run on torch's math path",
    "weight_unpacking_share": "weights are not packed",
    "weights_precision": "the weights are in fp32",
    "workers_cost_more": "workers cost less than they hide",
    "worker_hand_over_share": "a worker hands a batch over sooner than the loop loads it",
}


def assumed(names: Iterable[str], facts: Facts) -> tuple[str, ...]:
    """The assumption in the place of each fact of `names` that is unknown and has one."""
    unknown = (name for name in names if name not in facts or not facts[name].known)
    return tuple(dict.fromkeys(ASSUMED[name] for name in unknown if name in ASSUMED))


def sentence_of(assumptions: Iterable[str]) -> str:
    """The sentence that names the assumptions, "" if there are none."""
    listed = " and that ".join(assumptions)
    return f"Less sure: it is unknown here, and assumed, that {listed}." if listed else ""
