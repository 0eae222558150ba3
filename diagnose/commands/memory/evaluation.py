"""Memory that an evaluation keeps on the GPU: outputs of all its batches, in many blocks of a line or a growing one."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from diagnose.arrays import Ints
from diagnose.commands.memory.answer import KeptByEvaluation
from diagnose.commands.memory.replay import ALLOC, Played, frees_by, live_at
from diagnose.commands.memory.snapshot import History
from diagnose.commands.memory.stacks import Origin, evaluates, generates, of_trainer, recomputes
from diagnose.formulas import share
from diagnose.trace.stacks import Frame

KEPT_SHARE = 0.1  # of what was in use: below it, moving the outputs away makes no room for a larger batch
FEWEST_BLOCKS = 4  # of one stack: without gradients a forward pass holds two or three at a time
FEWEST_GROWTHS = 3  # of a block that is made anew with each batch, each time larger
STEADY_WITHIN = 0.25  # of what is kept: a forward pass with gradients keeps more with each layer


def kept_by_evaluation(
    history: History, through: Played, stacks: Sequence[Sequence[Frame]], origins: Sequence[Origin]
) -> KeptByEvaluation | None:
    """Memory that an evaluation keeps at the last OOM, or at the peak; None if it keeps nothing."""
    until = through.peak if through.oom is None else through.oom
    whole = through.peak_bytes if through.oom is None else through.oom_allocated_bytes
    sizes: dict[int, list[int]] = defaultdict(list)
    for size, stack in live_at(until, history, frees_by(history))[0].values():
        sizes[stack].append(size)
    kept = {
        stack: each
        for stack, each in sizes.items()
        if not generates(stacks[stack]) and not recomputes(stacks[stack])
        if _is_kept(history, until, stack, len(each), origins, sum(each) >= KEPT_SHARE * whole)
    }
    if not kept:
        return None
    most = max(kept, key=lambda stack: sum(kept[stack]))
    at, held = origins[most].at, sum(map(sum, kept.values()))
    return KeptByEvaluation(
        bytes=held,
        share=share(held, whole) or 0.0,
        blocks=sum(map(len, kept.values())),
        file=at.file,
        line=at.line,
        function=at.function,
        below=origins[most].below,
        by_trainer=any(of_trainer(frame) and evaluates([frame]) for frame in stacks[most]),
    )


def _is_kept(history: History, until: int, stack: int, blocks: int, origins: Sequence[Origin], is_large: bool) -> bool:
    """Whether a stack holds as many blocks as no batch alone does, or one that has grown again and again."""
    category = origins[stack].category
    if category == "evaluation":
        return blocks >= FEWEST_BLOCKS or (is_large and _grows(history, until, stack))
    if category != "activations" or blocks < FEWEST_BLOCKS or not is_large:
        return False
    return _is_steady(list(_beside(history, until, stack, blocks, origins)))


def _grows(history: History, until: int, stack: int) -> bool:
    last = np.frombuffer(history.sizes, np.int64)[_made_by(history, until, stack)[-(FEWEST_GROWTHS + 1) :]]
    return len(last) > FEWEST_GROWTHS and bool((np.diff(last) > 0).all())


# An evaluation that no function is named for: outputs of batches with nothing else kept of them, and no backward pass.


def _beside(
    history: History, until: int, stack: int, blocks: int, origins: Sequence[Origin]
) -> Iterator[tuple[int, int, bool]]:
    """For each of the last blocks of a stack: its size, the other activations in use then of all made since the first,
    and whether some were freed since. It ends where something is made that a forward pass does not make.
    """
    frees, live, others, any_freed, is_first = frees_by(history), {}, 0, False, True
    for row in range(int(_made_by(history, until, stack)[-blocks]), until + 1):
        action, number, address = history.actions[row], history.stacks[row], history.addresses[row]
        if action == ALLOC and number == stack:
            yield history.sizes[row], others, any_freed or is_first
            any_freed = is_first = False
        elif action == ALLOC and origins[number].category in ("activations", "other"):
            live[address] = history.sizes[row]
            others += history.sizes[row]
        elif action == ALLOC:
            return
        elif action == frees and address in live:
            others -= live.pop(address)
            any_freed = True


def _made_by(history: History, until: int, stack: int) -> Ints:
    """The rows up to `until` in which a stack allocates."""
    of_stack = np.frombuffer(history.stacks, np.int32)[: until + 1] == stack
    allocates = np.frombuffer(history.actions, np.int8)[: until + 1] == ALLOC
    return np.flatnonzero(of_stack & allocates)


def _is_steady(beside: Sequence[tuple[int, int, bool]]) -> bool:
    """Whether between the blocks other activations came and went, and did not become more."""
    if len(beside) < FEWEST_BLOCKS or not all(freed for _, _, freed in beside):
        return False
    later = [others for _, others, _ in beside[1:]]
    return max(later) - min(later) <= STEADY_WITHIN * sum(size for size, _, _ in beside)
