"""What an evaluation keeps on the GPU: outputs of all its batches, in many blocks of one line or in one that grows."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from diagnose.commands.memory.answer import KeptByEvaluation
from diagnose.commands.memory.replay import ALLOC, Played, frees_by, live_at
from diagnose.commands.memory.snapshot import History
from diagnose.commands.memory.stacks import Origin, evaluates, generates, of_trainer
from diagnose.formulas import share
from diagnose.trace.stacks import Frame

FEWEST_BLOCKS = 4  # of one stack: without gradients a forward pass holds two or three at a time
FEWEST_GROWTHS = 3  # of a block that is made anew with each batch, each time larger


def kept_by_evaluation(
    history: History, through: Played, stacks: Sequence[Sequence[Frame]], origins: Sequence[Origin]
) -> KeptByEvaluation | None:
    """What an evaluation keeps at the last OOM, or at the peak; None if it keeps nothing."""
    until = through.peak if through.oom is None else through.oom
    whole = through.peak_bytes if through.oom is None else through.oom_allocated_bytes
    live, _ = live_at(until, history, frees_by(history))
    sizes: dict[int, list[int]] = defaultdict(list)
    for size, stack in live.values():
        if origins[stack].category == "evaluation" and not generates(stacks[stack]):
            sizes[stack].append(size)
    kept = {stack: each for stack, each in sizes.items() if _is_kept(history, until, stack, len(each))}
    if not kept:
        return None
    most = max(kept, key=lambda stack: sum(kept[stack]))
    line, held = origins[most].line, sum(map(sum, kept.values()))
    return KeptByEvaluation(
        bytes=held,
        share=share(held, whole) or 0.0,
        blocks=sum(map(len, kept.values())),
        file=line.file if line else "",
        line=line.line if line else 0,
        function=line.function if line else "",
        below=origins[most].below,
        by_trainer=any(of_trainer(frame) and evaluates([frame]) for frame in stacks[most]),
    )


def _is_kept(history: History, until: int, stack: int, blocks: int) -> bool:
    """Whether a stack holds as many blocks as no batch alone does, or one that has grown again and again."""
    if blocks >= FEWEST_BLOCKS:
        return True
    of_stack = np.frombuffer(history.stacks, np.int32)[: until + 1] == stack
    allocates = np.frombuffer(history.actions, np.int8)[: until + 1] == ALLOC
    made = np.frombuffer(history.sizes, np.int64)[: until + 1][of_stack & allocates]
    last = made[-(FEWEST_GROWTHS + 1) :]
    return len(last) > FEWEST_GROWTHS and bool((np.diff(last) > 0).all())
