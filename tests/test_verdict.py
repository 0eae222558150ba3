"""The class of a ledger: every class, each threshold from both sides, what is between, and how sure it is."""

import pytest
from msgspec.structs import replace

from diagnose.attribution.causes import CAUSES
from diagnose.diagnosis import LedgerEntry, Verdict
from diagnose.judge.verdict import (
    NAMES_THE_CLASS,
    NEAR,
    TOO_MANY_LOST,
    Grounds,
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
GROUNDS = Grounds(of="the device step", has_gpu=True)


def ledger(**shares: float) -> tuple[LedgerEntry, ...]:
    """One entry for each class, and for `untraced`: the idle time in which the host leaves no trace."""
    causes = {name: CAUSES[TYPICAL.get(name, name)] for name in shares}
    return tuple(
        LedgerEntry(cause=cause.name, class_=cause.class_, ns=round(shares[name] * 1e9), share=shares[name])
        for name, cause in causes.items()
    )


def verdict(grounds: Grounds = GROUNDS, **shares: float) -> Verdict:
    return verdict_of(ledger(**shares), grounds)


def says_of(found: Verdict) -> list[str]:
    return [doubt.says for doubt in found.doubts if doubt.kind != "classed-by-kind"]


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
    ("shares", "class_"),
    [
        ({"unexplained": NAMES_THE_CLASS - NEAR - A_LITTLE, "compute": 0.85 + A_LITTLE}, "compute-bound"),
        ({"unexplained": NAMES_THE_CLASS + A_LITTLE, "compute": 0.8 - A_LITTLE}, "undecided"),
        ({"unexplained": 0.30, "data": 0.60, "compute": 0.10}, "data-bound"),
        ({"unexplained": 0.30, "data": 0.25, "compute": 0.45}, "undecided"),
        ({"unexplained": 0.09, "compute": 0.44, "memory": 0.30, "data": 0.17}, "undecided"),
    ],
)
def test_nothing_is_decided_only_where_the_unexplained_time_could_change_the_class(
    shares: dict[str, float], class_: str
) -> None:
    assert verdict(**shares).class_ == class_


@pytest.mark.parametrize(
    ("shares", "class_"),
    [
        ({"untraced": 0.40, "host": 0.60}, "host-bound"),
        ({"untraced": 0.20, "host": 0.30, "compute": 0.50}, "host-bound"),
        ({"untraced": 0.90, "host": 0.05, "compute": 0.05}, "undecided"),
        ({"untraced": 0.15, "host": 0.13, "compute": 0.72}, "undecided"),
        ({"untraced": 0.14, "compute": 0.86}, "compute-bound"),
    ],
)
def test_untraced_host_time_is_the_hosts_unless_another_wait_would_then_lead(
    shares: dict[str, float], class_: str
) -> None:
    assert verdict(**shares).class_ == class_


def test_two_classes_between_which_the_unexplained_time_decides_are_both_named() -> None:
    found = verdict(compute=0.48, memory=0.42, unexplained=0.10)

    assert (found.class_, found.between) == ("compute-bound", ("compute-bound", "memory-bound"))
    assert says_of(found) == ["for 10 % the trace does not show why the device waits, which decides between the two"]


def test_up_to_a_near_share_is_too_little_to_leave_the_class_open() -> None:
    assert verdict(compute=0.40, memory=0.38, data=0.19, unexplained=0.03).class_ == "compute-bound"


def test_what_could_not_change_the_class_makes_it_less_sure() -> None:
    some, much = verdict(data=0.93, unexplained=0.07), verdict(data=0.70, unexplained=0.30)

    assert (some.confidence, much.confidence) == ("high", "medium")
    assert (some.because, says_of(some)) == ("93.0 % of the device step waits for data", [])
    assert much.because == "70.0 % of the device step waits for data"
    assert says_of(much) == ["for 30 % the trace does not show why the device waits, which could not change the class"]


def test_an_undecided_verdict_says_how_much_is_open_and_what_the_step_may_be() -> None:
    found = verdict(host=0.3, untraced=0.22, unexplained=0.09, compute=0.39)

    assert found.because == (
        "for 31 % of the device step the trace does not show why the device waits: "
        "it may be host-bound, data-bound or communication-bound"
    )


def test_a_step_that_captures_a_graph_is_not_host_bound() -> None:
    recording = verdict(**{"graph-capture": 0.9, "host": 0.04, "compute": 0.06})
    beside = verdict(**{"graph-capture": 0.1, "host": 0.5, "compute": 0.4})

    assert (recording.class_, beside.class_) == ("undecided", "host-bound")
    assert recording.because.startswith("90.0 % of the device step is graph capture")


def test_a_device_that_is_not_known_decides_nothing() -> None:
    found = verdict(replace(GROUNDS, unknown_device="813 events of hpu_op"), host=0.9, compute=0.1)

    assert found.class_ == "undecided"
    assert found.because.startswith("813 events of hpu_op are of an unknown device")


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


@pytest.mark.parametrize(
    ("shares", "change", "class_", "near", "confidence"),
    [
        ({"data": 0.22, "compute": 0.78}, {}, "data-bound", "compute-bound", "low"),
        ({"data": 0.18, "compute": 0.82}, {}, "compute-bound", "data-bound", "medium"),
        ({"data": 0.255, "compute": 0.745}, {}, "data-bound", "", "high"),
        ({"data": 0.245, "compute": 0.755}, {}, "data-bound", "compute-bound", "low"),
        ({"data": 0.89, "unexplained": 0.11}, {}, "data-bound", "", "medium"),
        ({"data": 0.91, "unexplained": 0.09}, {}, "data-bound", "", "high"),
        ({"data": 0.9, "compute": 0.1}, {"lost_share": 0.22}, "undecided", "", "low"),
        ({"data": 0.9, "compute": 0.1}, {"lost_share": 0.18}, "data-bound", "", "medium"),
        ({"data": 0.9, "compute": 0.1}, {"lost_share": 0.022}, "data-bound", "", "medium"),
        ({"data": 0.9, "compute": 0.1}, {"lost_share": 0.018}, "data-bound", "", "high"),
        ({"compute": 0.9, "memory": 0.1}, {"sized_share": 0.84}, "compute-bound", "", "high"),
        ({"compute": 0.9, "memory": 0.1}, {"sized_share": 0.76}, "compute-bound", "", "medium"),
    ],
)
def test_both_sides_of_each_threshold_in_numbers(
    shares: dict[str, float], change: dict[str, float], class_: str, near: str, confidence: str
) -> None:
    found = verdict(replace(GROUNDS, **change), **shares)  # type: ignore[arg-type]

    assert (found.class_, found.between[1:], found.confidence) == (class_, (near,) if near else (), confidence)


def test_the_reason_holds_the_share_and_its_denominator() -> None:
    found = verdict(data=0.47, host=0.45, compute=0.08)

    assert found.because == "47.0 % of the device step waits for data, 45.0 % waits for the host"


@pytest.mark.parametrize("leading", ["compute", "memory"])
@pytest.mark.parametrize(("has_gpu", "what"), [(True, "kernels"), (False, "operators")])
def test_without_a_gpu_operators_run_and_no_kernels(leading: str, has_gpu: bool, what: str) -> None:
    found = verdict(replace(GROUNDS, has_gpu=has_gpu), **{leading: 1.0})

    assert found.because.startswith(f"100.0 % of the device step runs {leading}-bound {what}")


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


@pytest.mark.parametrize(("copied", "what"), [(0.55, "copies to the device"), (0.53, "data")])
def test_what_is_copied_is_not_called_data(copied: float, what: str) -> None:
    """Offloaded weights are copied as batches are: nine tenths of what waits decide how it is named."""
    found = verdict(data=0.6 - copied, compute=0.4, **{"copy-HtoD": copied})

    assert found.class_ == "data-bound"
    assert found.because == f"60.0 % of the device step waits for {what}"
