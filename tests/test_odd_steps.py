"""A class that few long steps make: how sure it is, and what it says."""

import pytest

from diagnose.attribution.causes import CAUSES
from diagnose.diagnosis import LedgerEntry
from diagnose.judge.verdict import Grounds, verdict_of

TYPICAL = {"host": "python", "compute": "gemm"}
SIZED = Grounds(of="the device step", has_gpu=True, sized_share=1.0)


def by_step(**ns: tuple[int, ...]) -> tuple[LedgerEntry, ...]:
    total = sum(map(sum, ns.values()))
    entries = ((CAUSES[TYPICAL[name]], each) for name, each in ns.items())
    return tuple(
        LedgerEntry(cause=c.name, class_=c.class_, ns=sum(each), share=sum(each) / total, by_step_ns=each)
        for c, each in entries
    )


@pytest.mark.parametrize(
    ("host", "confidence", "says"),
    [
        ((0, 0, 0, 0, 90, 0, 0), "low", "1 long step decides the class: the 6 others are compute-bound"),
        ((0, 0, 0, 40, 50, 0, 0), "low", "2 long steps decide the class: the 5 others are compute-bound"),
        ((0, 30, 0, 0, 30, 0, 0, 30, 0), "low", "3 long steps decide the class: the 6 others are compute-bound"),
        ((30, 30, 30, 0, 30, 0, 30), "high", ""),
        ((9, 9, 9, 9, 90, 9, 9), "high", ""),
    ],
)
def test_a_class_that_few_long_steps_make_is_less_sure(host: tuple[int, ...], confidence: str, says: str) -> None:
    found = verdict_of(by_step(host=host, compute=(10,) * len(host)), SIZED)

    assert (found.class_, found.confidence) == ("host-bound", confidence)
    assert [doubt.says for doubt in found.doubts] == ([says] if says else [])
