"""The columns of a table of runs, by the names of this program and by those of tables that others published."""

from collections.abc import Mapping

Row = Mapping[str, str]
_SAME = {
    "grad_accum": "accumulation",
    "global_batch_seqs": "global_batch",
    "n_gpus": "gpus",
    "seqlen_t": "seq_len",
    "microbatchsize": "micro_batch",
    "gradaccum": "accumulation",
    "globalbatchsize": "global_batch",
    "throughput_t_s_gpu": "tokens_per_s_per_gpu",
    "mbs": "micro_batch",
    "gbs": "global_batch",
    "sequence_length": "seq_len",
    "tokens_sec_gpu": "tokens_per_s_per_gpu",
}
"""Names of the tables of the Ultra-Scale Playbook, llm-foundry and Megatron-Bridge."""
_SHARDED = {"FULL_SHARD": "3", "SHARD_GRAD_OP": "2"}
_YES = ("true", "yes", "1")


def known_cells(row: Row) -> dict[str, str]:
    """The cells of a row by the names of this program, without blanks around them.

    Some columns of llm-foundry differ: `sharding_strategy` is a ZeRO stage, `precision` a number type or fp8, and
    `activation_checkpointing` full or none.
    """
    cells = {_SAME.get(name, name): (value or "").strip() for name, value in row.items() if isinstance(value, str)}
    told = {}
    if cells.get("sharding_strategy") in _SHARDED:
        told["zero"] = _SHARDED[cells["sharding_strategy"]]
    if "activation_checkpointing" in cells:
        told["checkpointing"] = "full" if is_yes(cells["activation_checkpointing"]) else "none"
    if "fp8" in cells.get("precision", ""):
        told["fp8"] = "yes"
    return told | cells


def is_yes(cell: str) -> bool:
    """Whether a cell means yes."""
    return cell.casefold() in _YES
