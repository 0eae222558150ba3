"""Advice on what to look at and capture next, and what the dumps do not show."""

from collections.abc import Iterator, Mapping, Sequence

from diagnose.commands.hang.answer import Fault
from diagnose.commands.hang.dump import Dump
from diagnose.commands.hang.matching import Matched, strangers
from diagnose.commands.hang.progress import Progress
from diagnose.commands.hang.words import ranks

_LOOK_AT = {
    "missing-dump": "Read the end of the log of {blamed}: it ended, lost its host, or was killed.",
    "order": "Make the calls in one order on every rank: no branch, set or dictionary of a rank may decide it.",
    "type": "Find the branch that ranks take differently before this call.",
    "size": "Make the tensors of this call equally large on every rank: pad them, or drop the last, smaller batch.",
    "data-type": "Give this call tensors of one type on every rank: look at autocast, and at casts in a branch.",
    "group": "Create the groups with the same ranks, in one order, on every rank, and call in the group that you mean.",
    "condition": "Let every rank take the same branch before this call: decide on one rank and broadcast the decision,"
    " or reduce the value that it depends on; or take the call out of the branch.",
    "desynchronised": "Give every rank the same number of rounds: drop_last, an equal number of batches, Join of "
    "torch.distributed.algorithms.join, and no `continue` or exception that one rank takes alone.",
    "behind": "Look for what {blamed} does meanwhile: diagnose run shows it if the job moves.",
}

_MAY_PASS = ("missing-rank", "missing-dump", "desynchronised", "in-call", "behind")


def next_steps(
    faults: Sequence[Fault], absent: Sequence[int], stacks: Mapping[int, object], progress: Progress | None
) -> Iterator[str]:
    """Next steps, the most useful first."""
    for fault in faults[:1]:
        if fault.kind == "missing-rank":
            without = [rank for rank in fault.blamed if rank not in stacks]
            if without:
                one = len(without) == 1
                yield (
                    f"See where {ranks(without)} {'is' if one else 'are'} while the job hangs: py-spy dump --pid PID"
                    f" > stacks-rank{without[0]}.txt (PID of {'that rank' if one else 'each'}, in the folder of the"
                    " dumps)"
                )
            yield _what_it_did(fault)
            if without:
                yield "In the next run, diagnose run --arm --hang-stacks 60 records these stacks by itself."
        elif fault.kind == "in-call":
            yield from _of_a_stuck_call(fault)
        elif fault.kind == "missing-dump" and fault.blamed and all(rank in stacks for rank in fault.blamed):
            yield f"Look at where py-spy saw {ranks(fault.blamed)}: it lived, and its recorder wrote no dump."
        else:
            yield _LOOK_AT[fault.kind].format(blamed=ranks(fault.blamed) if fault.blamed else "the late rank")
    if faults and progress is None and faults[0].kind in _MAY_PASS:
        yield "If the job may still move: dump again a minute later, and ask with --earlier and the first folder."
    if absent:
        yield f"Collect the dumps of {ranks(absent)}: each host writes those of its own ranks."


def unknowns(dumps: Mapping[int, Dump], groups: Sequence[Matched], absent: Sequence[int]) -> Iterator[str]:
    """Facts that the dumps do not show."""
    if absent:
        yield f"what {ranks(absent)} did, because there is no dump of it"
    if strange := strangers(dumps):
        one = len(strange) == 1
        yield (
            f"whether {ranks(strange)} {'is' if one else 'are'} of this job, because the dump has that number in its"
            " name, and the other numbers do not fit"
        )
    lost = [rank for rank, dump in dumps.items() if dump.lost]
    if lost:
        yield f"what {ranks(lost)} called at the beginning: the buffer keeps the last calls (TORCH_FR_BUFFER_SIZE)"
    bare = [rank for rank, dump in dumps.items() if dump.calls and not any(call.stack for call in dump.calls)]
    if bare:
        yield f"the lines of {ranks(bare)}: dumps in JSON have no stacks"
    guessed = [of.group.shown for of in groups if not of.are_known]
    if guessed:
        yield (
            f"who is in group {', '.join(guessed[:4])}, because gloo's dumps do not list it: all ranks are assumed for"
            " the default group, and the ranks that called in it for any other"
        )
    versions = {dump.version or "none" for dump in dumps.values()}
    if len(versions) > 1:
        yield f"whether all ranks run the same torch: their dumps have the versions {', '.join(sorted(versions))}"
    if sum(dump.left_out for dump in dumps.values()):
        yield "what the entries hold that are not in the format: they were left out"


def _what_it_did(fault: Fault) -> str:
    line = next((call.line for call in fault.instead if call.line is not None), None)
    after = f" after {line.file}:{line.line}, its last call" if line is not None else ""
    return (
        f"Look at what {ranks(fault.blamed)} did{after}: a branch that ranks take differently, an exception, a loader"
        " that ran empty or stands still, a checkpoint of one rank."
    )


def _of_a_stuck_call(fault: Fault) -> Iterator[str]:
    if fault.blamed:
        yield f"Look at what the device of {ranks(fault.blamed)} runs before this call: a kernel that does not end."
    yield "Run with NCCL_DEBUG=INFO, and look at the network and at the health of the devices of these ranks."
