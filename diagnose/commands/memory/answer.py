"""The answer of `diagnose memory`. Frozen; the reports are pure functions of it."""

from typing import Literal

import msgspec

from diagnose.diagnosis.answer import Answer

Category = Literal[
    "parameters",
    "activations",
    "gradients",
    "optimizer",
    "evaluation",
    "communication",
    "other",
    "no stack",
    "before the history",
]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Memory in use at the peak or at an OOM, by what allocated it: a line of the user's code, or the category.

    `share` is of all memory in use then. The line is the innermost of the user's code; `file` is "" for a category, and
    where no frame is the user's. `below` is the function of a library that the line called: it distinguishes what one
    line, such as `loss = model(x)`, allocates.
    """

    category: Category
    file: str = ""
    line: int = 0
    function: str = ""
    below: str = ""
    bytes: int
    share: float
    blocks: int


class OutOfMemory(msgspec.Struct, frozen=True, kw_only=True):
    """The last OOM of the history.

    `device_free_bytes` is what the driver had left, `reserved_bytes` what was reserved. `reserved_free_bytes` is what
    of it was not in use, and `largest_free_block_bytes` the largest piece of that: both without private pools, and null
    if the format does not say where segments lie. `alive` is the memory in use then by line, the largest first: it
    adds up to `allocated_bytes`. `in_evaluation` is whether an evaluation asked; null if the entry has no stack.
    """

    requested_bytes: int
    device_free_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    reserved_free_bytes: int | None
    largest_free_block_bytes: int | None
    alive: tuple[Held, ...]
    file: str = ""
    line: int = 0
    function: str = ""
    in_evaluation: bool | None = None


class KeptByEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that an evaluation keeps of the batches before, at the last OOM or else at the peak.

    `share` is of all memory in use then, the line is the one that holds most of it, and `by_trainer` is whether a loop
    of transformers' Trainer keeps it.
    """

    bytes: int
    share: float
    blocks: int
    file: str
    line: int
    function: str
    below: str
    by_trainer: bool


class CategoryUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Memory in use of one category at each point of a history."""

    category: Category
    bytes: tuple[int, ...]


class Emptied(msgspec.Struct, frozen=True, kw_only=True):
    """The line that empties the cache most often. `setting` is the Trainer's, if its loop does so by a setting."""

    file: str
    line: int
    function: str
    setting: Literal["", "torch_empty_cache_steps", "eval_accumulation_steps"] = ""


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Memory over the recorded history, the oldest first: the maximum of either over every `actions_per_point` actions.

    The most of `allocated_bytes` is the peak. `by_category` divides each of them: stacked, they add up to it.
    `border_us` is when each of these parts begins, from the first action on, and when the last one ends; empty if the
    snapshot has no times.
    """

    actions_per_point: int
    allocated_bytes: tuple[int, ...]
    reserved_bytes: tuple[int, ...]
    by_category: tuple[CategoryUsage, ...] = ()
    border_us: tuple[int, ...] = ()


class DeviceMemory(msgspec.Struct, frozen=True, kw_only=True):
    """One device.

    Attributes:
        allocated_bytes: in use by tensors when the snapshot was taken.
        reserved_bytes: of the driver, then.
        split_free_bytes: free, in segments that are in use too: only a request that fits into a piece can use it.
        cached_bytes: segments that are wholly free, which empty_cache would give back.
        largest_free_block_bytes: of both.
        private_pool_bytes: reserved in private pools, as CUDA graphs have: other requests cannot use them.
        private_pool_free_bytes: free in them, which none of the three above counts.
        rounding_bytes: by which blocks in use are larger than requested.
        peak_bytes: the maximum in use during the recorded history; null without one.
        at_peak: memory in use then by category, and by line: each adds up to the peak.
        retries: how often the allocator gave cached segments back to go on; null without a history, and if neither
            stacks nor the order of the actions say who did.
        empty_cache_calls: how often the job gave them back; likewise.
        given_back_by_unknown: how often it is not known who did.
        emptied: the line that did most often; null if that is not known.
        kept_by_evaluation: outputs that an evaluation keeps; null if there are none, or no stacks.
        actions: of the history.
        usage: over the history; null without one.
    """

    device: int
    allocated_bytes: int
    reserved_bytes: int
    split_free_bytes: int
    cached_bytes: int
    largest_free_block_bytes: int
    private_pool_bytes: int
    private_pool_free_bytes: int
    rounding_bytes: int
    peak_bytes: int | None
    at_peak: tuple[Held, ...]
    lines_at_peak: tuple[Held, ...]
    out_of_memory: OutOfMemory | None
    retries: int | None
    empty_cache_calls: int | None
    given_back_by_unknown: int
    emptied: Emptied | None
    kept_by_evaluation: KeptByEvaluation | None
    actions: int
    usage: Usage | None


class MemoryFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A judgement: `name` is the fault, `says` the fact with its figures, `do` the change to make."""

    name: Literal[
        "out-of-memory",
        "fragmentation",
        "evaluation-keeps-outputs",
        "empty-cache-in-the-loop",
        "allocator-retries",
        "segments-given-back",
    ]
    device: int
    says: str
    do: str


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the memory ledger, computed from the job's sizes."""

    name: str
    bytes: int


class MemoryAnswer(Answer, frozen=True, kw_only=True):
    """The answer of `diagnose memory` for one snapshot.

    `counted` is the memory ledger of the same run, if its traces lie next to the snapshot; `not_counted` is why there
    is none. `settings` are those of the allocator in the snapshot, as text.
    """

    schema_version: int = 1
    file: str
    others: tuple[str, ...]
    devices: tuple[DeviceMemory, ...]
    findings: tuple[MemoryFinding, ...]
    settings: dict[str, str]
    counted: tuple[Counted, ...] = ()
    not_counted: str = ""
    unknown: tuple[str, ...]
    next: tuple[str, ...]
