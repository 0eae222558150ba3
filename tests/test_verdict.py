"""The class of a ledger: every class, each threshold from both sides, what is between, and how sure it is."""

from dataclasses import replace

import pytest

from diagnose.attribution.causes import CAUSES
from diagnose.diagnosis import LedgerEntry, Verdict
from diagnose.judge.verdict import (
    NAMES_THE_CLASS,
    NEAR,
    TOO_MANY_LOST,
    TOO_UNEXPLAINED,
    TOO_UNOBSERVED,
    Grounds,
    class_shares,
    verdict_of,
)

TYPICAL = {
    "data": "data-wait",
    "host": "python",
    "communication": "exposed-communication",
    "compute": "gemm",
    "memory": "norm",
    "unexplained": "queued-on-idle-device",
}
A_LITTLE = 0.001
CLOSE, APART = NEAR - A_LITTLE, NEAR + A_LITTLE
GROUNDS = Grounds(of="the device step", steps=4, has_gpu=True)


def ledger(**shares: float) -> tuple[LedgerEntry, ...]:
    """One entry for each class, and for `untraced`: the idle time in which the host leaves no trace."""
    causes = {name: CAUSES[TYPICAL.get(name, name)] for name in shares}
    return tuple(
        LedgerEntry(cause=cause.name, class_=cause.class_, ns=round(shares[name] * 1e9), share=shares[name])
        for name, cause in causes.items()
    )


def verdict(grounds: Grounds = GROUNDS, **shares: float) -> Verdict:
    return verdict_of(ledger(**shares), grounds)


@pytest.mark.parametrize(
    ("shares", "class_"),
    [
        ({"data": 0.4, "compute": 0.6}, "data-bound"),
        ({"host": 0.4, "compute": 0.6}, "host-bound"),
        ({"communication": 0.4, "compute": 0.6}, "communication-bound"),
        ({"compute": 0.6, "memory": 0.4}, "compute-bound"),
        ({"memory": 0.6, "compute": 0.4}, "memory-bound"),
        ({"unexplained": 0.3, "compute": 0.7}, "undecided"),
    ],
)
def test_every_class(shares: dict[str, float], class_: str) -> None:
    found = verdict(**shares)

    assert (found.class_, found.between) == (class_, ())


@pytest.mark.parametrize(
    ("data", "class_", "between"),
    [
        (NAMES_THE_CLASS - APART, "compute-bound", ()),
        (NAMES_THE_CLASS - CLOSE, "compute-bound", ("compute-bound", "data-bound")),
        (NAMES_THE_CLASS - A_LITTLE, "compute-bound", ("compute-bound", "data-bound")),
        (NAMES_THE_CLASS, "data-bound", ("data-bound", "compute-bound")),
        (NAMES_THE_CLASS + CLOSE, "data-bound", ("data-bound", "compute-bound")),
        (NAMES_THE_CLASS + NEAR, "data-bound", ()),
    ],
)
def test_waiting_names_the_class_from_a_threshold_on(data: float, class_: str, between: tuple[str, ...]) -> None:
    found = verdict(data=data, compute=1 - data)

    assert (found.class_, found.between) == (class_, between)


@pytest.mark.parametrize(
    ("compute", "memory", "class_", "between"),
    [
        (0.50, 0.50 - CLOSE, "compute-bound", ("compute-bound", "memory-bound")),
        (0.50 - CLOSE, 0.50, "memory-bound", ("memory-bound", "compute-bound")),
        (0.50, 0.50 - APART, "compute-bound", ()),
    ],
)
def test_busy_time_is_decided_between_compute_and_memory(
    compute: float, memory: float, class_: str, between: tuple[str, ...]
) -> None:
    found = verdict(compute=compute, memory=memory)

    assert (found.class_, found.between) == (class_, between)


@pytest.mark.parametrize(
    ("data", "host", "between"),
    [
        (0.40, 0.40 - CLOSE, ("data-bound", "host-bound")),
        (0.40, 0.40 - APART, ()),
        (NAMES_THE_CLASS + NEAR, NAMES_THE_CLASS - APART, ()),
        (NAMES_THE_CLASS + NEAR / 3, NAMES_THE_CLASS - NEAR / 3, ("data-bound", "host-bound")),
        (NAMES_THE_CLASS + NEAR / 3, NAMES_THE_CLASS - APART, ("data-bound", "compute-bound")),
    ],
)
def test_two_kinds_of_waiting(data: float, host: float, between: tuple[str, ...]) -> None:
    found = verdict(data=data, host=host, compute=1 - data - host)

    assert (found.class_, found.between) == ("data-bound", between)


def test_several_small_waits_do_not_add_up_to_a_class() -> None:
    each = NAMES_THE_CLASS - APART

    assert verdict(data=each, host=each, communication=each, compute=1 - 3 * each).class_ == "compute-bound"


@pytest.mark.parametrize(
    ("unexplained", "class_"), [(TOO_UNEXPLAINED, "compute-bound"), (TOO_UNEXPLAINED + A_LITTLE, "undecided")]
)
def test_where_too_much_is_unexplained_nothing_is_decided(unexplained: float, class_: str) -> None:
    assert verdict(unexplained=unexplained, compute=1 - unexplained).class_ == class_


def test_an_untraced_host_is_the_host() -> None:
    found = verdict(host=0.13, untraced=0.15, compute=0.72)

    assert class_shares(ledger(host=0.13, untraced=0.15))["host"] == pytest.approx(0.28)
    assert (found.class_, found.because) == ("host-bound", "28.0 % of the device step waits for the host")


@pytest.mark.parametrize(("more", "undecided"), [(0.0, False), (A_LITTLE, True)])
def test_where_too_much_of_the_host_is_untraced_nothing_is_decided(more: float, undecided: bool) -> None:
    alone = verdict(untraced=TOO_UNOBSERVED + more, compute=1 - TOO_UNOBSERVED - more)
    beside = verdict(untraced=TOO_UNOBSERVED - 0.08 + more, unexplained=0.08, compute=0.92 - TOO_UNOBSERVED - more)

    assert [found.class_ == "undecided" for found in (alone, beside)] == [undecided, undecided]


def test_an_undecided_verdict_says_for_how_much_of_the_step_the_trace_shows_no_reason() -> None:
    found = verdict(host=0.3, untraced=0.22, unexplained=0.09, compute=0.39)

    assert found.because == "for 31 % of the device step the trace does not show why the device waits"


@pytest.mark.parametrize(
    ("grounds", "says"),
    [
        (replace(GROUNDS, capture_failed=True), "no GPU activity was recorded"),
        (replace(GROUNDS, lost_share=TOO_MANY_LOST + A_LITTLE), "of the kernel launches have no GPU activity"),
    ],
)
def test_a_capture_that_cannot_be_trusted_decides_nothing(grounds: Grounds, says: str) -> None:
    found = verdict(grounds, host=0.9, compute=0.1)

    assert (found.class_, found.confidence) == ("undecided", "low")
    assert says in found.because


@pytest.mark.parametrize(
    ("shares", "change", "confidence"),
    [
        ({"data": 0.4}, {}, "high"),
        ({"host": 0.4}, {}, "high"),
        ({"communication": 0.4}, {}, "high"),
        ({"compute": 0.9, "memory": 0.1}, {}, "medium"),
        ({"memory": 0.9, "compute": 0.1}, {}, "medium"),
        ({"data": 0.4}, {"steps": 1}, "medium"),
        ({"data": 0.4}, {"lost_share": 0.03}, "medium"),
        ({"data": 0.4, "host": 0.37}, {}, "medium"),
        ({"data": NAMES_THE_CLASS + CLOSE, "compute": 1 - NAMES_THE_CLASS - CLOSE}, {}, "low"),
        ({"communication": 0.4}, {"alone_of_many": True}, "low"),
        ({"data": 0.4}, {"alone_of_many": True}, "high"),
        ({"data": 0.4}, {"has_gpu": False}, "low"),
    ],
)
def test_how_sure_it_is(shares: dict[str, float], change: dict[str, bool], confidence: str) -> None:
    assert verdict(replace(GROUNDS, **change), **shares).confidence == confidence  # type: ignore[arg-type]


def test_the_reason_holds_the_share_and_its_denominator() -> None:
    found = verdict(data=0.47, host=0.45, compute=0.08)

    assert found.because == "47.0 % of the device step waits for data, 45.0 % waits for the host"


def test_an_empty_ledger_is_not_a_verdict_about_the_job() -> None:
    assert verdict().class_ == "undecided"


@pytest.mark.parametrize(
    ("waiting_apart", "causes", "says"),
    [
        (False, ("exposed-communication",), "60.0 % of the device step is exposed communication"),
        (True, ("exposed-communication",), "60.0 % of the device step is exposed transfer"),
        (
            True,
            ("exposed-communication", "late-rank-communication"),
            "60.0 % of the device step is exposed transfer and waiting for ranks late in communication",
        ),
    ],
)
def test_the_class_of_communication_says_what_of_it_is_counted(
    waiting_apart: bool, causes: tuple[str, ...], says: str
) -> None:
    share = 0.6 / len(causes)
    own = tuple(LedgerEntry(cause=c, class_="communication", ns=10, share=share) for c in causes)

    assert verdict_of((*own, *ledger(compute=0.4)), replace(GROUNDS, waiting_apart=waiting_apart)).because == says
