"""The columns of a table of runs, by the names of this program and by those of tables that others published."""

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from diagnose.commands.fit.headings import told_by_heading
from diagnose.errors import UserError
from diagnose.predict.memory.recorded import ATTENTIONS as ATTENTIONS_OF_TRANSFORMERS

Row = Mapping[str, str]
READ = (
    "model", "gpu", "gpus", "nodes", "dp", "tp", "pp", "cp", "ep", "vp", "zero", "replicas", "micro_batch",
    "accumulation", "global_batch", "seq_len", "dtype", "precision", "model_precision", "mixed_precision", "tf32",
    "optimizer", "attention", "checkpointing", "liger", "compile", "fp8", "stack", "tokens_per_s_per_gpu", "sharding",
    "fsdp", "offload", "experts", "lora_rank", "lora_targets", "qlora", "section", "source_repo", "source_path",
    "techniques", "parallelism", "quantization",
)  # fmt: skip
"""Names of this program, and columns that say several things at once."""
_SAME = {
    "accumulation": ("grad_accum", "gradaccum", "ga", "gradient_accumulation_steps"),
    "global_batch": ("global_batch_seqs", "globalbatchsize", "gbs", "global_batch_size"),
    "gpus": ("n_gpus", "ngpus", "num_gpus", "world_size"),
    "nodes": ("num_nodes", "n_nodes"),
    "seq_len": ("seqlen_t", "sequence_length", "seq_length", "sequence_len", "max_seq_len"),
    "micro_batch": ("microbatchsize", "mbs", "batch_size", "micro_batch_size", "per_device_train_batch_size"),
    "tokens_per_s_per_gpu": ("throughput_t_s_gpu", "tokens_sec_gpu", "tps_gpu", "vanilla_tp_tokens_sec"),
    "sharding": ("sharding_strategy",),
    "checkpointing": ("activation_checkpointing", "gradient_checkpointing"),
    "offload": ("activation_cpuoffload",),
    "gpu": ("system",),
    "attention": ("attn", "attn_implementation"),
    "compile": ("compiled", "torch_compile"),
    "liger": ("use_liger_kernel",),
    "zero": ("zero_stage",),
}
_NOT_READ = frozenset((
    # measured, so never read for a prediction: MFU and HFU of several conventions, throughput, memory
    "mfu", "hfu", "mfu_percent", "mfu_a100", "hfu_a100", "mfu_h100", "hfu_h100", "model_tflop", "model_tflop_sec_gpu",
    "model_tflops_sec_gpu", "tokens_per_s", "throughput_s_s", "throughput_t_s", "gpu_memory_gb", "memory_gb",
    "memory_gib", "time_per_global_step_s", "step_s", "async_tp_tokens_sec", "async_tp_speedup", "outcome",
    "a100x128_tokens_per_s_per_gpu", "h100x96_tokens_per_s_per_gpu",
    # what follows from other columns, or changes nothing that is predicted
    "globalbatchsize_t", "numparams", "lbs", "mp_mode", "schedule", "kernel_optimizations", "times_drawn", "notes",
    "source", "row",
))  # fmt: skip
_NAME_OF = {name: ours for ours, names in _SAME.items() for name in names} | {name: name for name in READ}
_TWO = re.compile(r"^(\S+) \((\S+)\)$")  # two runs in a row, as Megatron-Bridge prints them: "4 (8)"
_NONE = ("n/a", "-", "none", "")
_ZERO = {"NO_SHARD": "0", "DDP": "0", "SHARD_GRAD_OP": "2", "HYBRID_SHARD": "3", "FULL_SHARD": "3", "FSDP": "3"}
_ZERO |= {"HSDP": "3", "ZERO-1": "1", "ZERO-2": "2", "ZERO-3": "3"}
_IN_A_NODE = ("HYBRID_SHARD", "HSDP")
_CHECKPOINTING = {
    "no ac": "none",
    "selective ac": "selective",
    "full ac": "full",
    "selective": "selective",
    "none": "none",
}
_MAY_HOLD_TWO = (
    "gpus", "micro_batch", "accumulation", "global_batch", "tp", "pp", "cp", "vp", "ep", "fsdp", "precision",
)  # fmt: skip
_YES = ("true", "yes", "1", "y", "on")


def unknown_columns(names: Iterable[str], ours: Iterable[str]) -> tuple[str, ...]:
    """Columns that nobody here has a meaning for.

    Args:
        names: the columns of a table.
        ours: those that predictions are written to.
    """
    known = {*_NAME_OF, *_NOT_READ, *ours}
    return tuple(name for name in names if isinstance(name, str) and _plain(name) not in known)


def refuse_unknown(names: Iterable[str], ours: Iterable[str]) -> None:
    """Refuse a table with columns that nobody here has a meaning for.

    Raises:
        UserError: naming them, and what they may have been meant as.
    """
    if unknown := unknown_columns(names, ours):
        near = [(name, get_close_matches(_plain(name), _NAME_OF, n=1, cutoff=0.75)) for name in unknown]
        meant = "; ".join(f"{name} may be {close[0]}" for name, close in near if close)
        plural = "columns that are" if len(unknown) > 1 else "a column that is"
        do = "rename what states the job (docs/fit.md lists the names), or pass --ignore-columns"
        raise UserError(f"the table has {plural} not known", where=", ".join(unknown), why=meant, do=do)


def known_cells(row: Row) -> dict[str, str]:
    """The cells of a row by the names of this program; what headings say fills those that are empty.

    Of two runs that one row states, it is the first.
    """
    cells: dict[str, str] = {}
    for name, value in row.items():
        if isinstance(value, str) and (ours := _NAME_OF.get(_plain(name))) and value.strip():
            cells.setdefault(ours, value.strip())
    told = dict(told_by_heading(cells))
    cells = told | cells
    for name in _MAY_HOLD_TWO:
        if found := _TWO.match(cells.get(name, "")):
            cells[name] = found[1]
    return {**cells, **dict(_translated(cells))}


def holds_two(row: Row) -> bool:
    """Whether the row states two runs, of which the first is predicted."""
    return any(
        isinstance(value, str) and _NAME_OF.get(_plain(name)) in _MAY_HOLD_TWO and _TWO.match(value.strip())
        for name, value in row.items()
    )


def is_yes(cell: str) -> bool:
    """Whether a cell means yes."""
    return cell.casefold() in _YES


def _translated(cells: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Words of other projects as those of this one."""
    yield "model", re.sub(r"\s*\(.*\)$|\s+\d+-node$", "", cells.get("model", "")).strip()
    yield "gpu", cells.get("gpu", "").removeprefix("DGX-")
    for name in ("cp", "ep", "vp"):
        yield name, "1" if cells.get(name, "").casefold() in _NONE else cells[name]
    if cells.get("source_repo", "").endswith("/Automodel") and "GPT-OSS" in cells.get("model", ""):
        yield "ep", cells.get("gpus", "1")  # its table leaves open what its recipe states
    if attention := cells.get("attention"):
        yield "attention", ATTENTIONS_OF_TRANSFORMERS.get(attention, attention)
    if told := cells.get("checkpointing"):
        kind = _CHECKPOINTING.get(told.casefold(), told)
        yield "checkpointing", "full" if is_yes(kind) else "none" if kind.casefold() in ("false", "no", "0") else kind
    if "tokens_per_s_per_gpu" in cells:
        yield "tokens_per_s_per_gpu", cells["tokens_per_s_per_gpu"].replace(",", "")
    yield from _shards(cells)


def _shards(cells: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The ZeRO stage that the name of a strategy, or a number of FSDP's shards, stands for."""
    strategy = cells.get("sharding", "").upper()
    if "zero" not in cells and strategy in _ZERO:
        yield "zero", _ZERO[strategy]
        if strategy in _IN_A_NODE:
            yield "replicas", "nodes"
    elif "zero" not in cells and ("fsdp" in cells or cells.get("source_repo", "").endswith("/Megatron-Bridge")):
        shards = cells.get("fsdp", "")  # Megatron-Bridge's recipes have the distributed optimizer, whatever is stated
        yield "zero", "3" if shards.isdigit() and int(shards) > 1 else "1"


def _plain(name: str) -> str:
    return name.strip().casefold()
