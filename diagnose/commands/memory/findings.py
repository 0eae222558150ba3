"""Findings of a snapshot: memory that is free in pieces, kept by an evaluation, emptied again and again, too little."""

from collections.abc import Iterator

from diagnose.commands.memory.answer import DeviceMemory, Emptied, KeptByEvaluation, MemoryFinding, OutOfMemory
from diagnose.commands.memory.evaluation import KEPT_SHARE
from diagnose.facts import spoken
from diagnose.probes.facts.environment import ALLOCATOR, ALLOCATOR_BEFORE, ALLOCATOR_RENAMED_IN
from diagnose.report.views.words import counted

SPLIT_SHARE = 0.1  # of the reserved memory: below it, joining the pieces gains less than an allocator keeps anyway
FEWEST_CALLS = 3  # of empty_cache: one or two are around an evaluation or the beginning, more are in a loop
_RENAMED_IN = ".".join(map(str, ALLOCATOR_RENAMED_IN))
_EXPANDABLE = f"{ALLOCATOR}=expandable_segments:True (before torch {_RENAMED_IN}: {ALLOCATOR_BEFORE})"
_OF_TRAINER = (
    "Set eval_accumulation_steps, so that outputs go to the CPU every so many batches. Where only the loss is needed:"
    " prediction_loss_only=True. Else keep less of each batch: preprocess_logits_for_metrics (the argmax in place of"
    " the logits), batch_eval_metrics=True, or eval_do_concat_batches=False, without which each batch copies all"
    " before it."
)
_OF_OWN_LOOP = (
    "Keep of each batch what the metric needs, on the CPU: outputs.append(logits.argmax(-1).cpu()), or update the"
    " metric batch by batch; and evaluate under torch.inference_mode(), without which outputs keep their graph too."
)
_WHO_EMPTIES = {
    "": "Take torch.cuda.empty_cache() out of the loop.",
    "torch_empty_cache_steps": "Leave torch_empty_cache_steps unset: the Trainer empties the cache by it.",
    "eval_accumulation_steps": "Raise eval_accumulation_steps: the Trainer empties the cache each time that it moves"
    " outputs (with batch_eval_metrics, after each batch).",
}


def findings_of(device: DeviceMemory, expandable: bool | None) -> Iterator[MemoryFinding]:
    """The findings of a device, the worst first; `expandable` is whether segments already are, None if unknown."""
    oom, kept = device.out_of_memory, device.kept_by_evaluation
    evaluation = [_keeps(device, kept)] if kept is not None and kept.share >= KEPT_SHARE else []
    if oom is None:
        yield from evaluation
    else:
        yield from _of_oom(device, oom, evaluation, expandable)
    if (
        (oom is None or not _explains(oom))
        and device.retries
        and device.split_free_bytes >= SPLIT_SHARE * device.reserved_bytes
    ):
        yield _fragmentation(device, expandable)
    if (device.empty_cache_calls or 0) >= FEWEST_CALLS:
        yield _empties(device)
    if device.retries:
        yield MemoryFinding(
            name="allocator-retries",
            device=device.device,
            says=f"The allocator gave cached segments back {device.retries:,} times to go on: memory is almost full,"
            " and the job waits for the device each time.",
            do="Make room: a smaller micro-batch, activation checkpointing, or the change that frees most by"
            " `diagnose fit`.",
        )
    if device.given_back_by_unknown >= FEWEST_CALLS:
        yield MemoryFinding(
            name="segments-given-back",
            device=device.device,
            says=f"Cached segments were given back {device.given_back_by_unknown:,} times, by empty_cache or by the"
            " allocator to go on: the history has no stacks that say which. Each time waits for the device.",
            do="If the loop calls torch.cuda.empty_cache(), take it out; if it does not, memory is all but full: make"
            " room, with a smaller micro-batch or activation checkpointing.",
        )


def _of_oom(
    device: DeviceMemory, oom: OutOfMemory, evaluation: list[MemoryFinding], expandable: bool | None
) -> Iterator[MemoryFinding]:
    """Findings that explain an OOM, and the OOM. Pieces that are enough only with what the device has left come after
    outputs that an evaluation keeps: with the next batches these would need that too.
    """
    kept = evaluation if oom.in_evaluation else []
    pieces = [_fragmentation_at(device, oom, expandable)] if _explains(oom) else []
    alone = (oom.reserved_free_bytes or 0) >= oom.requested_bytes
    yield from (*pieces, *kept) if alone else (*kept, *pieces)
    yield _ran_out(device, oom, bool(evaluation))
    yield from () if kept else evaluation


def _explains(oom: OutOfMemory) -> bool:
    """Whether fragmentation is why an OOM came: all that was free was enough, and no piece of it."""
    if oom.reserved_free_bytes is None or oom.largest_free_block_bytes is None:
        return False
    is_capped = oom.device_free_bytes >= oom.requested_bytes  # by set_per_process_memory_fraction
    free = oom.reserved_free_bytes + (0 if is_capped else oom.device_free_bytes)
    return free >= oom.requested_bytes > oom.largest_free_block_bytes


def _fragmentation_at(device: DeviceMemory, oom: OutOfMemory, expandable: bool | None) -> MemoryFinding:
    requested, free = spoken(oom.requested_bytes, "bytes"), spoken(oom.reserved_free_bytes, "bytes")
    says = (
        f"{requested} were wanted, and {free} of {spoken(oom.reserved_bytes, 'bytes')} reserved were free, but in"
        f" pieces of at most {spoken(oom.largest_free_block_bytes, 'bytes')}; the device had"
        f" {spoken(oom.device_free_bytes, 'bytes')} left."
    )
    return MemoryFinding(name="fragmentation", device=device.device, says=says, do=_join(expandable))


def _fragmentation(device: DeviceMemory, expandable: bool | None) -> MemoryFinding:
    free, reserved = spoken(device.split_free_bytes, "bytes"), spoken(device.reserved_bytes, "bytes")
    largest = spoken(device.largest_free_block_bytes, "bytes")
    says = (
        f"fragmentation: {free} of {reserved} reserved are free between blocks in use, in pieces of at most"
        f" {largest}, into which larger requests do not fit."
    )
    return MemoryFinding(name="fragmentation", device=device.device, says=says, do=_join(expandable))


def _join(expandable: bool | None) -> str:
    """Settings that join pieces, or keep memory from falling into them."""
    repeat = "make sizes repeat, pad batches to a few lengths"
    if expandable:
        return f"Segments are expandable already. M{repeat[1:]}."
    known = "" if expandable is False else f" If it is set already, {repeat}."
    return (
        f"Set {_EXPANDABLE}: it joins free pieces.{known} If tensors are shared between processes, set"
        f" {ALLOCATOR}=max_split_size_mb:512 instead: it leaves larger blocks whole."
    )


def _at(place: Emptied | KeptByEvaluation | OutOfMemory) -> str:
    """The line in words, "" if it is unknown."""
    return f" at {place.file}:{place.line} in {place.function}" if place.file else ""


def _empties(device: DeviceMemory) -> MemoryFinding:
    emptied = device.emptied
    at = f", most often{_at(emptied)}" if emptied and emptied.file else ""
    return MemoryFinding(
        name="empty-cache-in-the-loop",
        device=device.device,
        says=f"torch.cuda.empty_cache() gave memory back {device.empty_cache_calls:,} times{at}: each call waits for"
        " the device, and the next allocation asks the driver for the same memory again.",
        do=_WHO_EMPTIES[emptied.setting if emptied else ""],
    )


def _keeps(device: DeviceMemory, kept: KeptByEvaluation) -> MemoryFinding:
    at = _at(kept)
    below = f" by {kept.below}" if kept.below else ""
    why = "outputs of batches are kept on the GPU, and no backward pass needs them"
    if not kept.by_trainer:
        why += ", or it records gradients, which keeps the activations of a batch"
    return MemoryFinding(
        name="evaluation-keeps-outputs",
        device=device.device,
        says=f"An evaluation, not training, holds {spoken(kept.bytes, 'bytes')} ({spoken(kept.share, 'share')} of what"
        f" was in use) in {counted(kept.blocks, 'block')}, most of it{at}{below}: {why}.",
        do=_OF_TRAINER if kept.by_trainer else _OF_OWN_LOOP,
    )


def _ran_out(device: DeviceMemory, oom: OutOfMemory, outputs_kept: bool) -> MemoryFinding:
    at = _at(oom)
    when = " in an evaluation" if oom.in_evaluation else ""
    return MemoryFinding(
        name="out-of-memory",
        device=device.device,
        says=f"Out of memory: {spoken(oom.requested_bytes, 'bytes')} were wanted{at}{when}, with"
        f" {spoken(oom.allocated_bytes, 'bytes')} in use{_lay(device, oom)} and"
        f" {spoken(oom.device_free_bytes, 'bytes')} left on the device.",
        do=_make_room(oom, outputs_kept),
    )


def _lay(device: DeviceMemory, oom: OutOfMemory) -> str:
    private = ""
    if device.private_pool_bytes:
        private = f", {spoken(device.private_pool_bytes, 'bytes')} in private pools of CUDA graphs"
    if oom.reserved_free_bytes is None:
        return private
    return (
        f", {spoken(oom.reserved_free_bytes, 'bytes')} reserved and free, the largest piece"
        f" {spoken(oom.largest_free_block_bytes, 'bytes')}{private}"
    )


def _make_room(oom: OutOfMemory, outputs_kept: bool) -> str:
    first = oom.alive[0] if oom.alive else None
    most = ""
    if first is not None:
        where = f"{first.file}:{first.line} ({first.category})" if first.file else first.category
        most = f" {where} holds {spoken(first.share, 'share')} of the memory in use."
    if oom.in_evaluation and not outputs_kept:
        return f"Evaluate in smaller batches, under torch.inference_mode(); training did not run out.{most}"
    return f"Free the largest part, or avoid it.{most}"
