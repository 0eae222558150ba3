"""Public traces of jobs of several ranks, which are not part of this project (see tests/test_real_traces.py)."""

import os
import shutil
from pathlib import Path

import pytest
from read_once import diagnosis_of

from diagnose.analysis import analyze
from diagnose.attribution.attribution import attribute
from diagnose.ranks import RankDigest, digest_of, match
from diagnose.timeline import timeline_of
from diagnose.trace import read

FOLDER = Path(os.environ.get("DIAGNOSE_REAL_TRACES", "."))
DLRM, RESNET = FOLDER / "dlrm-8xv100", FOLDER / "resnet-ckpt-mi300x"
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not DLRM.is_dir(), reason="DIAGNOSE_REAL_TRACES names no folder with labelled traces"),
]
MS = 1_000_000


def digests(folder: Path) -> list[RankDigest]:
    timelines = [timeline_of(read(path), rank) for rank, path in enumerate(sorted(folder.glob("*.json.gz")))]
    return [digest_of(timeline, attribute(timeline)) for timeline in timelines]


def test_collectives_without_fields_match_on_all_ranks_and_hardly_transfer() -> None:
    (found,) = match(digests(DLRM))  # type: ignore[misc]

    assert found.call.shape == (8, 8)
    assert found.symmetric.all(), "the kernels called SendRecv are all-to-alls"
    assert 0.1 * MS < found.transfer.sum() < 0.4 * MS


def test_the_clocks_of_one_host_agree_to_microseconds() -> None:
    found = diagnosis_of(DLRM).postmortem

    assert found is not None
    assert found.matched == 8
    assert max(abs(clock.offset_ns or 0) for clock in found.clocks) < 50_000
    assert max(clock.residual_ns or 0 for clock in found.clocks) < 10_000
    assert found.clocks_agree
    assert (found.mismatches, found.missing_ranks) == ((), ())


def test_seven_of_eight_ranks_match_and_the_missing_one_is_named(tmp_path: Path) -> None:
    for path in sorted(DLRM.glob("*.json.gz"))[:7]:
        shutil.copy(path, tmp_path)

    found = analyze(tmp_path).postmortem

    assert found is not None
    assert (found.matched, found.missing_ranks, len(found.clocks)) == (8, (7,), 7)
    assert all(group.absent == 1 for group in match(digests(tmp_path)))  # type: ignore[union-attr]


def test_rccl_kernels_take_their_fields_from_the_host() -> None:
    (rank,) = digests(RESNET)
    calls = rank.calls

    assert sorted(calls.kinds) == ["allreduce", "broadcast"]
    assert [group.ranks for group in calls.groups] == [tuple(range(8))]
    assert sorted({int(b) for b in calls.bytes})[-2:] == [2 * 2_873_320, 2 * 8_816_192]


def test_one_rank_is_exposed_but_transfer_is_not_judged() -> None:
    found = diagnosis_of(RESNET)

    exposed = next(e.share for e in found.ledger if e.cause == "exposed-communication")
    assert exposed == pytest.approx(0.636, abs=0.03)
    assert [n.because for n in found.not_judged if n.rule == "transfer_or_wait"] == [
        "one rank cannot tell transfer from waiting"
    ]
