"""The content of `capture-rank{R}.json`: type and range of each field that the analysis reads."""

from diagnose.decoding import (
    MOST_RANKS,
    all_of,
    digits,
    each,
    flag,
    in_order,
    listed,
    name,
    number,
    one_of,
    row,
    scalar,
    table,
    text,
    whole,
)
from diagnose.probes.announcements import BY_KEY, PACKAGES
from diagnose.probes.protocol import MOST_BELOW, MOST_STACK_FRAMES, MOST_STACKS

UNREADABLE_RECORD = "unreadable-record"  # the loss of a record that holds nothing
_COUNT = number(0, written_whole=True)
_BYTES = number(0, written_whole=True)
_NS = number(0, written_whole=True)
_CORES = number(0, 1 << 20, written_whole=True)
_SIZE = whole(0, 1 << 31)
_FACTOR = number(0, 1e6)
_SHARE = number(0, 1)
_PARAMETERS = number(0, 1e15, written_whole=True)

_VERSIONS = (
    "torch", "transformers", "accelerate", "liger_kernel", "triton", "flash_attn", "flash_attn_3", "kernels",
    "deepspeed", "nvtx", "python", "cuda", "hip", "driver", "driver_cuda", "nccl",
)  # fmt: skip
_TORCH_FLAGS = ("detects_anomalies", "deterministic", "cudnn_deterministic", "cudnn_benchmark", "debug_build")
_CPU_FLAGS = ("cpu_multiplies_fp16", "cpu_multiplies_bf16", "cpu_has_avx2")
_TORCH_SETTINGS = {
    **dict.fromkeys(_TORCH_FLAGS, flag),
    **dict.fromkeys(("float32_matmul_precision", "distributed_debug", "cpu_vectors"), text),
    "threads": whole(1, 1 << 20),
    "gpu_code": listed(text),
    **dict.fromkeys(_CPU_FLAGS, flag),
}
_STEPS = {
    **{f"{name}_ns": in_order(_NS) for name in ("control_before", "warmup", "active", "control_after", "waiting")},
    **{f"active_{name}_ns": in_order(_NS) for name in ("cpu", "core_wait")},
    **dict.fromkeys(("unprofiled_page_faults", "collections"), in_order(_COUNT)),
    "unprofiled_system_ns": in_order(_NS),
    "unprofiled_host_ns": in_order(_NS),
    "unprofiled_ranges_ns": each(in_order(_NS)),
    "unprofiled_gc_ns": in_order(_NS),
    "clock": one_of("host", "device"),
    "source": one_of("trainer", "optimizer", "backward", "code"),
    "first_active_step": whole(0, 1 << 48),
    "settled": flag,
    "shortened": flag,
    "passed": whole(0, 1 << 48),
    "cut_by": text,
}
_EVERY_STEP = {
    "number": in_order(whole(0, 1 << 48)),
    **dict.fromkeys(("ns", "gc_ns"), in_order(_NS)),
    "profiled": in_order(flag),
    "ranges_ns": each(in_order(_NS)),
}
_SPAN = table({"ns": _NS, "ranges_ns": each(_NS)})
RUN_TIME = table(
    {
        "wall_ns": _NS,
        **dict.fromkeys(("first_seen", "ended"), flag),
        **dict.fromkeys(("before", "in_steps", "after"), _SPAN),
        "skipped": table({"batches": _COUNT, "ns": _NS, "ranges_ns": each(_NS)}),
        "maps": table(dict.fromkeys(("calls", "computed", "in_memory", "processes"), _COUNT)),
    },
    optional=("skipped", "maps"),
)
_STEPS_IF_ANY = (
    *(f"active_{name}_ns" for name in ("cpu", "core_wait")),
    *(f"unprofiled_{name}_ns" for name in ("host", "ranges", "gc", "system")),
    *("unprofiled_page_faults", "collections", "waiting_ns", "passed", "cut_by"),
)
_DDP_FLAGS = ("find_unused_parameters", "gradient_as_bucket_view", "static_graph", "broadcast_buffers")
_FSDP = {"class": text, "sharding_strategy": text, "forward_prefetch": flag}
_ZERO = {
    "stage": whole(0, 3),
    **dict.fromkeys(("offload_optimizer", "offload_param"), text),
    **dict.fromkeys(("reduce_bucket_size", "allgather_bucket_size", "prefetch_bucket_size"), _COUNT),
    "overlap_comm": flag,
    "zero_hpz_partition_size": whole(0, MOST_RANKS),
}
_DEVICE = {
    "name": text,
    "index": whole(0, 1 << 16),
    "pci_address": text,
    "total_memory_bytes": _BYTES,
    "compute_capability": text,
    "multiprocessors": number(0, 1 << 16, written_whole=True),
    "memory_clock_mhz": number(0, 1e6),
    "clock_mhz": number(0, 1e6),
    "memory_bus_bits": number(0, 1 << 20, written_whole=True),
    "l2_cache_bytes": _BYTES,
    "nvml": table(
        {
            **{
                name: number(0, 1e6, written_whole=True)
                for name in (
                    "sm_clock_mhz",
                    "sm_clock_max_mhz",
                    "memory_clock_mhz",
                    "memory_clock_max_mhz",
                    "memory_bus_bits",
                    "clock_mhz",
                    "temperature_c",
                )
            },
            **dict.fromkeys(("power_w", "power_limit_w"), number(0, 1e6)),
            "throttle_reasons": listed(text),
        },
        optional=("clock_mhz",),
    ),
}
_MODEL = {
    "class": text,
    "model_type": text,
    "parameters": _PARAMETERS,
    "trainable": _PARAMETERS,
    "embedding_parameters": _PARAMETERS,
    "dtypes": each(_PARAMETERS),
    "attn_implementation": text,
    "gradient_checkpointing": flag,
    "config": each(scalar),
    "text_config": each(scalar),
}
_ARGUMENTS = {
    **{
        name: number(0, 1e9)
        for name in (
            "per_device_train_batch_size",
            "gradient_accumulation_steps",
            "logging_steps",
            "eval_steps",
            "save_steps",
            "dataloader_num_workers",
        )
    },
    **dict.fromkeys(
        (
            "bf16",
            "fp16",
            "tf32",
            "gradient_checkpointing",
            "torch_compile",
            "use_liger_kernel",
            "logging_nan_inf_filter",
            "group_by_length",
        ),
        flag,
    ),
    **dict.fromkeys(("eval_strategy", "save_strategy", "logging_strategy", "optim"), text),
}
_OPTIMIZER = {
    **dict.fromkeys(("class", "made_by"), text),
    **dict.fromkeys(("fused", "foreach", "capturable"), flag),
    **dict.fromkeys(("parameters", "unstepped_gradients"), _PARAMETERS),
    "dtypes": each(_PARAMETERS),
    "groups": _COUNT,
}
_PASSES = {
    **dict.fromkeys(("batches", "length", "gone_through", "seen", "anew", "loaders", "fetched"), _COUNT),
    **dict.fromkeys(("waited_ns", "batch_cpu_ns"), _NS),
    "steps": in_order(_COUNT),
    "first_wait_ns": in_order(_NS),
    "persistent": flag,
    "start_method": text,
}
_LOADING = {
    **dict.fromkeys(("wall_ns", "cpu_ns", "together_cpu_ns", "process_cpu_ns", "ready_ns"), _NS),
    "worker_cores": _CORES,
    "passes": table(_PASSES, optional=("length", "gone_through")),
    "workers": _COUNT,
    "fetches": _COUNT,
    "wait_ns": in_order(_NS),
    "busy": number(0),
    **dict.fromkeys(("unmeasured", "ready_unmeasured"), text),
}
_PADDING = {
    **dict.fromkeys(("batches", "tokens", "padded_tokens", "beyond_longest_tokens"), _COUNT),
    **dict.fromkeys(("share_error", "least_share", "most_share"), _SHARE),
    **dict.fromkeys(("least_length", "most_length", "most_beyond_longest"), _COUNT),
    "samples_by_tokens": listed(row(_SIZE, _SIZE)),
}
_ROWS = {
    **dict.fromkeys(("batches", "samples", "padded_tokens", "collated_tokens"), _COUNT),
    **dict.fromkeys(("with_ids", "with_mask", "least_length", "most_length"), _COUNT),
    "collates": one_of("pads", "fails", "unknown"),
}
_EXPECTED = {
    "rule": text,
    "speedup": in_order(number(0, 1e9)),
    "step": text,
    **dict.fromkeys(
        (
            *("step_ns", "unprofiled_step_ns", "run_step_ns"),
            *("samples_per_step", "tokens_per_step", "useful_tokens_per_step"),
        ),
        number(0),
    ),
    "over": text,
    "padding_share": number(0, 1),
    **dict.fromkeys(("unprofiled_ns", "each_ns"), listed(number(0))),
    "facts": each(scalar),
    "evidence": listed(text),
}
_REFUSED = {
    **dict.fromkeys(("target", "key", "because", "unless_set"), text),
    "binds": one_of("job", "patch"),
    "value": scalar,
}
_MS = number(0, 1e9)
_MOST_BY_STEP = 10_000  # more steps than a stack is looked at in
_STACKS = {
    **dict.fromkeys(("interval_ms", "wall_ms", "cost_ms"), _MS),
    **dict.fromkeys(
        ("steps", "first_step", "samples", "in_user_code", "in_reference_kernels", "left_out"), whole(0, 1 << 48)
    ),
    "stacks": listed(
        table(
            {
                "frames": all_of(row(name, whole(0, 1 << 31), name), most=MOST_STACK_FRAMES),
                "doing": name,
                "calls": name,
                "below": all_of(row(name, name), most=MOST_BELOW),
                "samples": whole(1, 1 << 48),
                "by_step": listed(row(whole(0, 1 << 48), whole(1, 1 << 48)), most=_MOST_BY_STEP),
            },
            optional=("below", "by_step"),
        ),
        most=MOST_STACKS,
    ),
    "step_ns": in_order(_NS),
    "why_none": text,
}
_OF_THREADS = {**_STACKS, "workers": table(_STACKS, optional=_STACKS)}
_ANNOUNCED = {
    "message": one_of(*BY_KEY),
    "what": name,
    "packages": listed(one_of(*PACKAGES)),
    "file": text,
    "line": whole(0, 1 << 31),
}
_PROFILER = {
    "activities": listed(text),
    **dict.fromkeys(("warmup", "active"), _COUNT),
    **dict.fromkeys(("record_shapes", "with_stack", "profile_memory", "record_python_gc_info", "detaches_cupti"), flag),
}
_RECORDING = {
    **dict.fromkeys(("budget_bytes", "text_bytes", "memory_bytes"), _BYTES),
    **dict.fromkeys(("asked_steps", "steps"), whole(0, 1 << 48)),
    "recorded_ranks": whole(0, MOST_RANKS),
    "stall_s": number(0, 1e9),
    "shapes": flag,
    "ranks": text,
    "cut_because": text,
}

_DEVICE_MEMORY = ("allocated", "reserved", "max_allocated", "max_reserved", "free", "total")
_OVER = table({"run": in_order(number()), "window": in_order(number())})  # least, median, most
_READINGS = {
    **dict.fromkeys(("samples", "in_window"), whole(0, 1 << 32)),
    **dict.fromkeys(("interval_s", "wall_s"), number(0, 1e9)),
    "gauges": each(_OVER),
    "rates": each(_OVER),
    "totals": each(number(0)),
    "throttled": each(table({"run": _SHARE, "window": _SHARE})),
    "limits": each(number(0)),
    "series": each(in_order(number())),
    "cost_ms": _MS,
    "why_none": text,
}

_COMPILED_SINCE = ("again_ns", "since_first_ns", "limit")

COMPILED = table(
    {
        "compiled": listed(
            table(
                {
                    **dict.fromkeys(("file", "function"), name),
                    **dict.fromkeys(("line", "broken_at", "failed_at"), whole(0, 1 << 31)),
                    **dict.fromkeys(("again", "failed"), text),
                    "because": listed(text),
                }
            )
        ),
        **dict.fromkeys(("again_ns", "since_first_ns"), _NS),
        "limit": whole(1, 1 << 31),
    },
    optional=_COMPILED_SINCE,
)

_PLACE = {"file": name, "line": whole(0, 1 << 31)}
_SCRIPT = {
    "options": listed(table({"flags": all_of(name), "takes": text, "default": scalar, **_PLACE})),
    "calls": listed(table({"name": name, **_PLACE})),
    "config": each(scalar),
}

_PORT = {
    **dict.fromkeys(("name", "link", "pci_address"), text),
    "port": whole(0, 1 << 16),
    **dict.fromkeys(("rdma", "up", "opens", "virtual"), flag),
    "gbit_per_s": number(0.001, 1e6),
}

RECORD = table(
    {
        "schema_version": whole(),
        "rank": whole(0, MOST_RANKS),
        "world_size": whole(0, MOST_RANKS),
        "host": text,
        "slurm": each(digits),
        "cores": table(
            {
                "usable": _CORES,
                "quota": number(0, 1 << 20),
                "shared": _CORES,
                "local_ranks": number(0, MOST_RANKS, written_whole=True),
            }
        ),
        "versions": table({"liger_model_types": listed(text), **dict.fromkeys(_VERSIONS, text)}),
        "device": table(_DEVICE),
        "torch_settings": table(_TORCH_SETTINGS, optional=(*_CPU_FLAGS, "cpu_vectors")),
        "model": table(_MODEL),
        "training_loop": text,
        "training_arguments": table(_ARGUMENTS, optional=_ARGUMENTS, open_to_others=True),
        "dataloader": table(
            {
                "num_workers": number(0, 1e6),
                "prefetch_factor": number(0, 1e6),
                **dict.fromkeys(("pin_memory", "persistent_workers", "drop_last"), flag),
                "batch_size": scalar,
                "times_repeated": _COUNT,
                "made_by": text,
                **dict.fromkeys(("all_rows", "shards"), _COUNT),
            },
            optional=("made_by", "all_rows", "shards"),
        ),
        "batch": table(
            {
                "shapes": each(all_of(_SIZE)),
                "bytes": _BYTES,
                "tokens": number(0, 1e15),
                "padding_share": _SHARE,
                "batches_seen": _COUNT,
                "padding": table(_PADDING),
                "rows": table(_ROWS),
            }
        ),
        "loading": table(_LOADING),
        "optimizer": table(_OPTIMIZER, optional=("made_by", "unstepped_gradients")),
        "compiled": flag,
        "compilations": COMPILED,
        "announced": listed(table(_ANNOUNCED)),
        "ddp": table(
            {**dict.fromkeys(_DDP_FLAGS, flag), "bucket_cap_mb": _FACTOR, "unused_parameter_bytes": _BYTES},
            optional=("unused_parameter_bytes",),
        ),
        "fsdp": table(_FSDP, optional=("forward_prefetch",)),
        "zero": table(_ZERO),
        "liger": table({"asked": flag, "loaded": flag}),
        "memory": table({f"{of}_bytes": _BYTES for of in _DEVICE_MEMORY}),
        "environment": each(text),
        "infiniband_devices": whole(0, 1 << 16),
        "network_ports": listed(table(_PORT)),
        **dict.fromkeys(("malloc", "python_traced_by"), text),
        "command": all_of(text),
        "script": table(_SCRIPT),
        "applied": each(table({}, open_to_others=True)),
        **dict.fromkeys(("refuses", "refused"), listed(table(_REFUSED))),
        "expected": table(_EXPECTED),
        "steps": table(_STEPS, optional=_STEPS_IF_ANY),
        "overhead_factor": _FACTOR,
        "every_step": table(_EVERY_STEP),
        "run_time": RUN_TIME,
        "machine_samples": table(_READINGS),
        "stack_samples": table(_OF_THREADS, optional=_OF_THREADS),
        "recording": table(_RECORDING),
        "profiler": table(_PROFILER, open_to_others=True),
        "error": text,
    },
    optional=(
        "announced", "command", "script", "machine_samples", "stack_samples", "infiniband_devices", "network_ports",
        "malloc", "python_traced_by", "zero", "every_step", "run_time",
    ),
)  # fmt: skip
"""The whole record."""
