"""Answer from the stacks that py-spy printed, if no dump shows the calls."""

from collections.abc import Iterator, Mapping, Sequence

from diagnose.commands.hang.answer import Hang, RankState, UnreadFile
from diagnose.commands.hang.reading import FolderContents
from diagnose.commands.hang.words import ranks as ranks_text

_WAITS = ("torch/distributed/", "_engine_run_backward")
_WHERE = "where ranks wait for each other, in a call of torch.distributed or the backward pass"


def only_seen(folder: FolderContents) -> Hang:
    """The answer for a folder with stacks and without dumps: where each rank was, and which of them waited."""
    return Hang(
        folder=folder.folder,
        verdict="unknown",
        headline=f"No dump tells which calls were made. {_who_waits(folder.stacks)}",
        faults=(),
        follow=(),
        ranks=tuple(seen_alone(folder)),
        without_dump=tuple(folder.stacks),
        unread=tuple(UnreadFile(file=entry.file, why=entry.why) for entry in folder.unread),
        unknown=("which calls were made, and which is waited for: there is no dump of a flight recorder",),
        next=tuple(_next(folder.stacks)),
    )


def seen_alone(folder: FolderContents) -> Iterator[RankState]:
    """The ranks with stacks and without a dump."""
    for rank, stack in sorted(folder.stacks.items()):
        if rank not in folder.dumps:
            yield RankState(rank=rank, file="", version="", calls=0, open=0, last=None, stack=stack)


def _who_waits(stacks: Mapping[int, tuple[str, ...]]) -> str:
    waiting, others = _divided(stacks)
    if not waiting:
        return f"By its stack no rank that py-spy saw ({ranks_text(others)}) is {_WHERE}."
    inside = f"{_by(waiting)} {_WHERE}"
    if not others:
        return f"{inside}, and py-spy saw no other."
    at = {stacks[rank][0] for rank in others}
    where = f", but in {at.pop()}" if len(at) == 1 else ""
    return f"{inside}; {ranks_text(others)} {'is' if len(others) == 1 else 'are'} not{where}."


def _by(ranks: Sequence[int]) -> str:
    one = len(ranks) == 1
    return f"By {'its stack' if one else 'their stacks'} {ranks_text(ranks)} {'is' if one else 'are'}"


def _next(stacks: Mapping[int, tuple[str, ...]]) -> Iterator[str]:
    waiting, others = _divided(stacks)
    if waiting and others:
        yield (
            f"Look at what {ranks_text(others)} did at the line shown: a branch that ranks take differently, an"
            " exception, a loader that ran empty or stands still, a checkpoint of one rank."
        )
    yield "For the calls, let each rank write what its flight recorder holds: docs/hang.md. Gloo writes none by itself."


def _divided(stacks: Mapping[int, tuple[str, ...]]) -> tuple[list[int], list[int]]:
    """The ranks whose stack has a frame that waits for other ranks, and those without one."""
    waiting = [
        rank
        for rank, stack in sorted(stacks.items())
        if any(in_torch in frame for frame in stack for in_torch in _WAITS)
    ]
    return waiting, [rank for rank in sorted(stacks) if rank not in waiting]
