"""Give what the threads of the backward pass allocate the line that called `backward`.

On a GPU they run no Python, or functions that torch calls. Whoever calls `loss.backward()` allocates the first gradient
itself, with a stack, and then waits until they are done: what they allocate up to the next stack of another kind is of
that call.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from diagnose.commands.memory.replay import ALLOC
from diagnose.commands.memory.snapshot import OOM, History, Snapshot
from diagnose.commands.memory.stacks import is_python, runs_backward, runs_in_engine
from diagnose.trace.stacks import Frame

_BARE, _BEGINS, _IN_ENGINE, _OTHER = range(4)
Stack = tuple[Frame, ...]


def with_calls_of_backward(snapshot: Snapshot) -> Snapshot:
    """The snapshot, in which stacks of those threads go on with the stack of the call that they ran for."""
    kinds = np.array([_kind(stack) for stack in snapshot.stacks], np.int8)
    stacks = list(snapshot.stacks)
    numbers: dict[tuple[int, int], int] = {}
    histories = {device: _attributed(history, kinds, stacks, numbers) for device, history in snapshot.histories.items()}
    return replace(snapshot, histories=histories, stacks=stacks)


def _kind(stack: Stack) -> int:
    if not any(map(is_python, stack)):
        return _BARE
    if runs_in_engine(stack):
        return _IN_ENGINE
    return _BEGINS if runs_backward(stack) else _OTHER


def _attributed(
    history: History,
    kinds: "np.ndarray[tuple[int], np.dtype[np.int8]]",
    stacks: list[Stack],
    numbers: dict[tuple[int, int], int],
) -> History:
    """The history with numbers of joined stacks, which are added to `stacks`."""
    actions = np.frombuffer(history.actions, np.int8)
    rows = np.flatnonzero((actions == ALLOC) | (actions == OOM))
    of_row = np.frombuffer(history.stacks, np.int32)[rows]
    kind = kinds[of_row]
    at = np.where((kind == _BEGINS) | (kind == _OTHER), np.arange(len(rows)), -1)
    last = np.maximum.accumulate(at) if len(at) else at
    by_thread = (kind == _BARE) | (kind == _IN_ENGINE)
    within = np.flatnonzero(by_thread & (last >= 0) & (kind[last] == _BEGINS))
    if not len(within):
        return history
    column = history.stacks[:]
    for i in within.tolist():
        pair = int(of_row[i]), int(of_row[last[i]])
        if pair not in numbers:
            numbers[pair] = len(stacks)
            stacks.append((*stacks[pair[0]], *_caller(stacks[pair[1]])))
        column[int(rows[i])] = numbers[pair]
    return replace(history, stacks=column)


def _caller(stack: Sequence[Frame]) -> Sequence[Frame]:
    """The frames from the innermost `backward` outwards."""
    at = next(i for i in range(len(stack)) if runs_backward(stack[i : i + 1]))
    return stack[at:]
