"""A stage of a pipeline with more work than the others is told as that, with its cure; a slow rank of it is not."""

from pathlib import Path

import numpy as np
import pytest
from simulator import Fault, Job, simulate

from diagnose.analysis.rank import analyses
from diagnose.diagnosis.postmortem import NO_STRAGGLER
from diagnose.metrics.settings import Settings
from diagnose.ranks import Job as Joined
from diagnose.ranks import join
from diagnose.ranks.pipeline import stages_of
from diagnose.ranks.replay.changes import EQUAL_STAGES
from diagnose.ranks.stragglers.evidence import LatenessEvidence, waiting_by_rank
from diagnose.ranks.stragglers.few_steps import NEVER
from diagnose.trace import Loading

RANKS = 8


def joined(folder: Path, late: tuple[int, ...], parallelism: str = "pp_dp") -> Joined:
    """A job of that many ranks, some of which take 1.6 times as long for their kernels."""
    fault = Fault("slow_kernels", late, 1.6)
    simulate(Job(ranks=RANKS, steps=4, parallelism=parallelism, faults=(fault,))).write(folder)  # type: ignore[arg-type]
    files = [(folder / f"rank{rank}.json.gz", rank) for rank in range(RANKS)]
    return join([own.digest for own in analyses(files, Settings(), Loading())])


def test_a_stage_all_of_whose_ranks_take_longer_is_told_with_its_cure(tmp_path: Path) -> None:
    equal = joined(tmp_path / "equal", (0,))
    last = stages_of(equal.ranks, equal.match)[-1]

    found = joined(tmp_path / "stage", last)

    assert found.stragglers == ()
    assert "one pipeline stage (6, 7) all work 1." in found.view.heavier_stage
    (cure,) = (change for change in found.changes.changes if change.change in (EQUAL_STAGES, NO_STRAGGLER))
    assert cure.change == EQUAL_STAGES
    assert 1 < cure.speedup[0] < cure.speedup[1]
    assert found.view.straggler_cure_share == (0.0, 0.0)


def test_one_slow_rank_of_a_stage_is_no_heavier_stage(tmp_path: Path) -> None:
    found = joined(tmp_path, (RANKS - 1,))

    assert [(late.rank, late.cause) for late in found.stragglers] == [(RANKS - 1, "slower_kernels")]


def test_a_job_without_messages_has_no_stages(tmp_path: Path) -> None:
    found = joined(tmp_path, (RANKS - 1,), "ddp")

    assert stages_of(found.ranks, found.match) == ()


@pytest.mark.parametrize("seconds", [1, 40])
def test_what_several_late_ranks_cause_is_divided_however_long_the_steps_are(seconds: int) -> None:
    ns = seconds * 10**9
    evidence = LatenessEvidence(
        caused_ns=np.array([[0], [0], [ns], [3 * ns]]),
        own_ns=np.array([[0], [0], [ns], [ns]]),
        step_ns=np.array([4 * ns]),
        noise_share=0.05,
        votes=np.zeros(4, np.int64),
        peers=~np.eye(4, dtype=bool),
        work_ns=(),
        slowest=(NEVER,) * 4,
        seen=np.ones((4, 1), bool),
    )

    assert waiting_by_rank(evidence, (2, 3)).tolist() == [[0], [0], [2 * ns], [2 * ns]]
