"""Kernels of unknown kind count as memory-bound, may as well compute, and decide no class."""

import pytest

from diagnose.attribution.causes import CAUSES
from diagnose.diagnosis import LedgerEntry, Verdict
from diagnose.judge.verdict import NEAR, Grounds, verdict_of

UNKNOWN = "unclassified-kernel"


def verdict(shares: dict[str, float]) -> Verdict:
    ledger = tuple(
        LedgerEntry(cause=cause, class_=CAUSES[cause].class_, ns=round(share * 1e9), share=share)
        for cause, share in shares.items()
    )
    return verdict_of(ledger, Grounds(of="the device step", has_gpu=True))


@pytest.mark.parametrize(
    ("shares", "class_"),
    [
        ({"gemm": 0.2, UNKNOWN: 0.8}, "undecided"),
        ({"gemm": 0.4, "elementwise": 0.3, UNKNOWN: 0.3}, "undecided"),
        ({"gemm": 0.6, "elementwise": 0.3, UNKNOWN: 0.1}, "compute-bound"),
        ({"gemm": 0.3, "elementwise": 0.6, UNKNOWN: 0.1}, "memory-bound"),
        ({"data-wait": 0.5, UNKNOWN: 0.5}, "data-bound"),
        ({"gemm": 0.5 - NEAR, "elementwise": 0.5, UNKNOWN: NEAR}, "memory-bound"),  # no call is finer
    ],
)
def test_they_leave_the_class_open_where_they_decide_it(shares: dict[str, float], class_: str) -> None:
    assert verdict(shares).class_ == class_


def test_what_they_leave_open_is_told_with_their_share() -> None:
    found = verdict({"gemm": 0.2, UNKNOWN: 0.8})

    assert found.because == (
        "kernels of unknown kind take 80 % of the device step: it may be memory-bound or compute-bound"
    )
