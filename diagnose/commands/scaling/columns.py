"""Roles of the columns of a table of runs, by their names."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_TIMES_S = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_NAMES = {
    "gpus": "gpus n_gpus num_gpus ngpus gpu_count world_size n_devices devices",
    "nodes": "nodes n_nodes num_nodes",
    "rate_per_gpu": "tokens_per_s_per_gpu tokens_per_sec_per_gpu tokens_per_second_per_gpu tokens_sec_gpu tokens_s_gpu "
    "tok_s_per_gpu tok_s_gpu tps_gpu tps_per_gpu throughput_t_s_gpu",
    "rate": "tokens_per_s tokens_per_sec tokens_per_second tokens_s tok_s tps throughput_t_s",
    "step": "step_time step_s step_ms time_per_step iteration_time iter_time",
    "tokens": "tokens_per_step global_tokens_per_step global_batch_tokens globalbatchsize_t",
    "tokens_per_gpu": "tokens_per_step_per_gpu",
    "global_batch": "global_batch_size global_batch globalbatchsize gbs global_batch_seqs",
    "seq_len": "seq_len seqlen seqlen_t sequence_length max_seq_len",
    "micro_batch": "micro_batch micro_batch_size microbatchsize mbs per_device_train_batch_size batch_size",
    "accumulation": "grad_accum gradaccum accumulation accumulation_steps gradient_accumulation_steps ga",
    "data_parallel": "dp data_parallel data_parallel_size",
    "power": "power_w gpu_power_w",
}
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_NO_SETTING = re.compile(
    r"mfu|hfu|flop|memory|throughput|loss|seed|times_drawn|outcome|status|notes?\Z|date|source_(repo|path)|_(gb|gib)\Z"
)


@dataclass(frozen=True)
class Columns:
    """Positions in a row.

    Attributes:
        at: by role.
        step_unit_s: seconds of a unit of the column of step times.
        settings: name and position of columns that distinguish jobs: neither a role nor a measurement.
        named: position of every column, by its name as it stands in the file.
    """

    at: Mapping[str, int]
    step_unit_s: float
    settings: Mapping[str, int]
    named: Mapping[str, int]


def columns_of(names: Sequence[str]) -> Columns:
    """The first column of each role, and the settings."""
    at: dict[str, int] = {}
    settings: dict[str, int] = {}
    unit_s = 1.0
    for position, name in enumerate(names):
        words = re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")
        base, _, last = words.rpartition("_")
        role = _ROLE_OF.get(words)
        if role is None and last in _TIMES_S and _ROLE_OF.get(base) == "step":
            role = "step"
        if role == "step" and role not in at:
            unit_s = _TIMES_S.get(last, 1.0)
        if role is None and words and not _NO_SETTING.search(words):
            settings[name.strip()] = position
        elif role is not None:
            at.setdefault(role, position)
    return Columns(at, unit_s, settings, {name.strip(): i for i, name in enumerate(names)})
