"""Headings of published tables, which state model, GPU, division, batch and switches of all rows below them."""

import re
from collections.abc import Iterator, Mapping

from diagnose.predict.memory.adapters import ALL_LINEAR

_STACKS = {
    "mosaicml/llm-foundry": "llm-foundry",
    "pytorch/torchtitan": "torchtitan",
    "NVIDIA-NeMo/Megatron-Bridge": "megatron",
    "vinjn/nanotron-ultrascale-playbook": "nanotron",
    "NVIDIA-NeMo/Automodel": "megatron",
    "foundation-model-stack/fms-fsdp": "torchtitan",
}
"""Whose rates the rows of a repository get; AutoModel and fms-fsdp have those of the nearest stack."""
_BOARDS = {("torchtitan", "h100"): "H100-96GB-HBM2e", ("torchtitan", "h200"): "H200"}
_PATTERNS = {
    "gpu": r"System: DGX-(\w+)",
    "precision": r"Precision: (\w+)",
    "model": r"Model: ([^|>]+?)\s*$",
    "gpus": r"(\d+) (?:GPUs|[HA][12]00s)",
    "micro_batch": r"ocal batch size (\d+)",
    "global_batch": r"lobal batch size (\d+)",
    "tp": r"\bTP[ =]?(\d+)",
    "pp": r"\bPP[ =]?(\d+)",
    "cp": r"\bCP[ =]?(\d+)",
}
_LLAMA = re.compile(r"Llama ?3\S* (8b|70b|405b)", re.I)
_SWITCHES = {
    "compile": (r"torch\.compile", "yes"),
    "fp8": (r"[Ff]loat8", "yes"),
    "checkpointing": (r"(?:[Ff]ull (?:AC|activation))", "full"),
}
_SELECTIVE = re.compile(r"\bSAC\b|elective (?:AC|activation)")
_LORA_RANK = "16"  # of NeMo's recipes
_AUTOMODEL_KEEPS = re.compile(r"GPT-OSS|Llama3 8B|Qwen2\.5 7B")  # its recipes of other models checkpoint every block
_TITAN_SEQ_LEN = "8192"  # of its configurations of Llama 3


def told_by_heading(cells: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Cells that the heading, the source and the remarks of a row stand for."""
    text = " | ".join(filter(None, (cells.get(name, "") for name in ("section", "techniques", "quantization"))))
    heading = " | ".join(filter(None, (cells.get("section", ""), cells.get("parallelism", ""))))
    stack = _stack(cells.get("source_repo", ""))
    if stack:
        yield "stack", stack
    for name, pattern in _PATTERNS.items():
        if found := re.findall(pattern, heading):
            yield name, found[-1]
    for name, (pattern, value) in _SWITCHES.items():
        if re.search(pattern, _own(text, cells)):
            yield name, value
    if _SELECTIVE.search(text):
        yield "checkpointing", "selective"
    if cells.get("source_repo", "").endswith("/Automodel"):
        yield "dtype", "bf16"
        yield "checkpointing", "none" if _AUTOMODEL_KEEPS.search(cells.get("model", "")) else "full"
    if "LoRA" in text:
        yield "lora_rank", _LORA_RANK
        yield "lora_targets", ALL_LINEAR
    if stack == "torchtitan" and (model := _LLAMA.search(text)):
        yield "model", f"Llama-3.1-{model[1].upper()}"
        yield "seq_len", _TITAN_SEQ_LEN
        yield "zero", "2" if re.search(_PATTERNS["pp"], heading) else "3"
        if re.search(_PATTERNS["pp"], heading) and (batch := re.search(_PATTERNS["micro_batch"], heading)):
            yield from (("micro_batch", "1"), ("accumulation", batch[1]))  # a pipeline cuts the local batch itself
        yield from _board(stack, cells.get("source_path", ""))


def _own(text: str, cells: Mapping[str, str]) -> str:
    """Text about the switches of this row: its list of techniques alone if it has one."""
    return cells["techniques"] if "FSDP" in cells.get("techniques", "") else text


def _stack(source: str) -> str:
    return next((stack for name, stack in _STACKS.items() if source.startswith(name)), "")


def _board(stack: str, path: str) -> Iterator[tuple[str, str]]:
    for (name, board), key in _BOARDS.items():
        if name == stack and board in path:
            yield "gpu", key
