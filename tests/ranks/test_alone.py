"""What one rank does alone while the others wait for it at the next collective: it saves or evaluates."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from kineto import Trace, collective
from needs import needs
from two_ranks import diagnosed

from diagnose.analysis import analyze
from diagnose.diagnosis import Diagnosis
from diagnose.diagnosis.postmortem import AloneWork
from diagnose.probes.protocol import EVAL_RANGE, RECORD, SAVE_RANGE
from diagnose.ranks.sampled_work import named

WAITING = {"frames": [["train.py", 30, "main"]], "doing": "backward", "calls": "backward", "samples": 60}
TRAINING = {"frames": [["train.py", 29, "main"]], "doing": "forward", "calls": "model", "samples": 40}
SAVING = {
    "frames": [["train.py", 31, "main"], ["train.py", 9, "keep"]],
    "doing": "step",
    "calls": "save",
    "samples": 60,
}
INLINE = {"frames": [["train.py", 33, "main"]], "doing": "forward", "calls": "model", "samples": 60}
INSIDE = {
    "frames": [["train.py", 34, "main"], ["e.py", 5, "validate"]],
    "doing": "step",
    "calls": "mean",
    "samples": 60,
}


def report(
    folder: Path, samples: list[list[dict[str, Any]]], operators: int = 4, range_name: str = "nothing", every: int = 1
) -> Diagnosis:
    """Rank 0 has host code more every so many steps, some operators in it, and each rank its stack samples."""
    ranks = [Trace(rank=rank, world=len(samples)) for rank in range(len(samples))]
    for step in range(7):
        with ExitStack() as opened:
            for trace in ranks:
                opened.enter_context(trace.step())
                for _ in range(12):
                    trace.op("aten::mm", kernel="gemm", gpu_us=5, host_us=250)
            if step % every == 0:
                with ranks[0].annotation(range_name):
                    ranks[0].host(3000 if not operators else 0)
                    for _ in range(operators):
                        ranks[0].op("aten::mm", kernel="gemm", gpu_us=5, host_us=3000 / operators)
            collective(ranks, "allreduce", 1 << 22, 100, wait=True)
            for trace in ranks:
                trace.sync(stream=None)
    for trace, stacks in zip(ranks, samples, strict=True):
        trace.write(folder / f"rank{trace.rank}.json")
        count = sum(each["samples"] for each in stacks)
        found = {"samples": count, "in_user_code": count, "steps": 10, "stacks": stacks}
        record = {"rank": trace.rank, "world_size": len(ranks), "stack_samples": found}
        (folder / RECORD.format(trace.rank)).write_text(json.dumps(record))
    return analyze(folder)


@pytest.mark.parametrize(
    ("own", "operators", "work", "where"),
    [
        (SAVING, 0, "saving", "keep (train.py:9)"),
        (INLINE, 4, "evaluating", "main (train.py:33)"),
        (INSIDE, 0, "evaluating", "validate (e.py:5)"),
    ],
)
def test_samples_tell_what_one_rank_does_alone_and_its_remedy(
    own: dict[str, Any], operators: int, work: AloneWork, where: str, tmp_path: Path
) -> None:
    found = report(tmp_path, [[own, TRAINING], [WAITING, TRAINING]], operators)

    (late,), (finding,) = found.stragglers, [each for each in found.findings if each.rule == "straggler"]
    assert (late.rank, late.alone, late.where) == (0, work, where)
    assert f"alone, in {where}, for 60.0 % of its time, while the others wait at the next collective" in late.because
    assert ("async_save" in finding.do, "on all ranks" in finding.action) == (work == "saving", work == "evaluating")


@pytest.mark.parametrize(
    ("own", "operators", "action"),
    [(SAVING, 0, "save without holding up the other ranks"), (INLINE, 4, "evaluate on all ranks")],
)
def test_what_one_rank_does_alone_now_and_then_is_told_with_its_remedy(
    own: dict[str, Any], operators: int, action: str, tmp_path: Path
) -> None:
    found = report(tmp_path, [[own, TRAINING], [WAITING, TRAINING]], operators, every=3)

    (passing,) = found.postmortem.passing if found.postmortem else ()
    assert found.stragglers == ()
    assert passing.because.startswith(f"it {'saves' if own is SAVING else 'evaluates'} alone, in ")
    assert [each.action for each in found.findings if each.rule == "rotating-stragglers"] == [action]


@pytest.mark.parametrize(
    ("stacks", "operators"),
    [
        ([[SAVING, TRAINING], [SAVING, TRAINING]], 4),
        ([[INLINE, TRAINING], [WAITING, TRAINING]], 0),
        ([[SAVING | {"samples": 4}, TRAINING | {"samples": 4}], [WAITING, TRAINING]], 4),
        ([[SAVING, TRAINING], []], 4),
    ],
    ids=["both save", "a slower forward pass", "a few samples", "no samples of the other"],
)
def test_nothing_is_done_alone_without_evidence(
    stacks: list[list[dict[str, Any]]], operators: int, tmp_path: Path
) -> None:
    (late,) = report(tmp_path, stacks, operators).stragglers

    assert (late.rank, late.alone) == (0, "none")


@pytest.mark.parametrize(
    ("name", "work"), [(EVAL_RANGE, "evaluating"), (SAVE_RANGE, "saving"), ("write_dashboard", "none")]
)
def test_a_range_of_one_rank_alone_tells_it_without_samples(name: str, work: AloneWork, tmp_path: Path) -> None:
    (late,) = report(tmp_path, [[], []], range_name=name).stragglers

    assert late.alone == work


@pytest.mark.parametrize(
    ("name", "work"),
    [
        ("save_checkpoint", "saving"),
        ("saveModel", "saving"),
        ("run_validation", "evaluating"),
        ("EvalLoop", "evaluating"),
        ("invalidate", "none"),
        ("retrieval", "none"),
    ],
)
def test_a_name_tells_the_work_by_whole_words(name: str, work: AloneWork) -> None:
    assert named(name) == work


@pytest.mark.capture
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "work", "where"), [("evaluate", "evaluating", "evaluate ("), ("save", "saving", "save (")]
)
def test_a_real_job_names_what_rank_0_does_alone(kind: str, work: AloneWork, where: str, tmp_path: Path) -> None:
    needs("torch")
    found = diagnosed(tmp_path, "alone_on_rank_0.py", kind, "1")

    (late,) = found.stragglers
    assert (late.rank, late.alone, late.cause) == (0, work, "checkpoint")
    assert late.where.startswith(f"{where}alone_on_rank_0.py:")
    assert f"alone, in {late.where}, for " in late.because
    assert "while the others wait at the next collective" in late.because
