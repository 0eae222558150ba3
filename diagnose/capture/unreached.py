"""Why a job reached no window: in a clause, from what its processes left and the code that its command ended with."""

import re
from collections.abc import Iterable
from pathlib import Path

from diagnose.probes.protocol import FORKED_MARK, PYTHON_MARK, SEEN_MARK

_SEEN = re.compile(re.escape(SEEN_MARK) + r"(\d{1,18})\.(\d{1,18})\.(\d{1,18})")
_IN_THE_SCRIPT = "wrap the loop in diagnose.probes.profile"
_UNHOOKED = (
    "no Python process of the command could be hooked: PYTHONPATH did not reach it "
    "(a container, `srun --export=NONE`, a host without this folder), or Python runs with -I, -E or -S"
)
_SPAWNED = "; children of multiprocessing are not followed: start ranks with torchrun"


def why_unreached(marks: Path, code: int = 0) -> str:
    """The clause; `marks` is the folder where the hooked processes of the command leave how far they got."""
    reached = {path.name for path in marks.iterdir()} if marks.is_dir() else set()
    if PYTHON_MARK not in reached:
        return f"{ended(code)}; {_UNHOOKED}" if code else _UNHOOKED
    hint = _SPAWNED if FORKED_MARK in reached else ""
    if "torch" not in reached:
        return (
            f"{ended(code)} before it imported torch"
            if code
            else f"no Python process of the command imported torch{hint}"
        )
    batches, backward_passes, steps = _most_seen(reached)
    if code and not steps:
        far = _counted(batches, "batch", "batches") if batches and not backward_passes else ""
        far = _counted(backward_passes, "backward pass", "backward passes") if backward_passes else far
        return f"{ended(code)} before a step{f', after {far}' if far else ''}{hint}"
    return _of_a_loop(batches, backward_passes, steps) + hint


def ended(code: int) -> str:
    """How the command ended, to begin a clause."""
    return f"your command ended with {code}"


def _of_a_loop(batches: int, backward_passes: int, steps: int) -> str:
    if steps:
        seen = _counted(steps, "step of an optimizer", "steps of an optimizer")
        return f"no window of steps was reached: {seen} came, too few or in another thread"
    if backward_passes:
        seen = _counted(backward_passes, "backward pass", "backward passes")
        return f"{seen} and no optimizer step: {_IN_THE_SCRIPT}, or pass --step-on backward"
    if batches:
        seen = f"{_counted(batches, 'batch', 'batches')} of a DataLoader"
        return f"no backward pass and no optimizer step, only {seen}: if it computes on them, {_IN_THE_SCRIPT}"
    return "no window of steps was reached: no backward pass, no optimizer step and no batch of a DataLoader was seen"


def _most_seen(marks: Iterable[str]) -> tuple[int, ...]:
    """The counts of the process that came furthest; one that was killed left none."""
    rows = [tuple(map(int, told.groups())) for told in map(_SEEN.fullmatch, marks) if told]
    return max(rows, key=lambda row: row[::-1], default=(0, 0, 0))


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
