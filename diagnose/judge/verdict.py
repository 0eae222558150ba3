"""The class of a ledger: what bounds the step, how sure that is, and what it is close to.

The largest of data, host and communication names the class from `NAMES_THE_CLASS` of the step on; otherwise the busy
time decides between compute and memory. Within `NEAR` of a boundary both sides are named. Every sentence that quotes a
threshold reads it here, those of the documentation included.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from diagnose.attribution.causes import CAUSES, EXPOSED, EXPOSED_TRANSFER, UNOBSERVED
from diagnose.diagnosis import Confidence, LedgerEntry, Verdict, VerdictClass

NAMES_THE_CLASS = 0.20  # of the step: the largest of data, host and communication
NEAR = 0.05  # of the step: to a boundary, or between two classes
TOO_UNEXPLAINED = 0.10  # of the step: the class "unexplained" alone
TOO_UNOBSERVED = 0.20  # of the step: the same with untraced host time
TOO_MANY_LOST = 0.20  # of the kernel launches: nothing is decided
MANY_LOST = 0.02  # of the kernel launches: no verdict is sure
MOSTLY_SIZED = 0.80  # of the kernel time, judged by the roofline

_NAMES: dict[str, VerdictClass] = {
    "data": "data-bound",
    "host": "host-bound",
    "communication": "communication-bound",
    "compute": "compute-bound",
    "memory": "memory-bound",
}
_SAYS = {
    "data": "waits for data",
    "host": "waits for the host",
    "communication": "is exposed communication",
    "compute": "runs compute-bound kernels",
    "memory": "runs memory-bound kernels",
}


@dataclass(frozen=True)
class Grounds:
    """What limits the confidence of a verdict; `waiting_apart`: exposed communication holds the transfer alone."""

    of: str
    steps: int
    has_gpu: bool
    capture_failed: bool = False
    lost_share: float = 0.0
    sized_share: float = 0.0
    alone_of_many: bool = False
    late_rank_missing: bool = False
    waiting_apart: bool = False


def verdict_of(ledger: tuple[LedgerEntry, ...], grounds: Grounds) -> Verdict:
    """The verdict on a ledger whose entries add up to the step."""
    refused = _refused(ledger, grounds)
    if refused:
        return Verdict(class_="undecided", confidence="low", because=refused)
    shares = class_shares(ledger)
    leader, runner_up = _leader(shares)
    between = (_NAMES[leader], _NAMES[runner_up]) if runner_up else ()
    return Verdict(
        class_=_NAMES[leader],
        between=between,
        confidence=_confidence(leader, shares[leader], bool(between), grounds),
        because=_because(
            (leader, runner_up), shares, grounds, _SAYS | {"communication": _communication(ledger, grounds)}
        ),
    )


def class_shares(ledger: tuple[LedgerEntry, ...]) -> dict[str, float]:
    """Share of each class."""
    shares = dict.fromkeys((*_NAMES, "unexplained"), 0.0)
    for entry in ledger:
        shares[entry.class_] += entry.share
    return shares


def _refused(ledger: tuple[LedgerEntry, ...], grounds: Grounds) -> str:
    if grounds.capture_failed:
        return "the job ran on a GPU but no GPU activity was recorded, so nothing is known of the device"
    if grounds.lost_share > TOO_MANY_LOST:
        return f"{100 * grounds.lost_share:.0f} % of the kernel launches have no GPU activity in the trace"
    if not any(e.ns for e in ledger):
        return "no counted step has a duration"
    unobserved = sum(e.share for e in ledger if e.cause in UNOBSERVED)
    if class_shares(ledger)["unexplained"] > TOO_UNEXPLAINED or unobserved > TOO_UNOBSERVED:
        return f"for {100 * unobserved:.0f} % of {grounds.of} the trace does not show why the device waits"
    return ""


def _leader(shares: Mapping[str, float]) -> tuple[str, str]:
    """The class and, within `NEAR` of a boundary, the class on its other side."""
    waits = sorted(("data", "host", "communication"), key=lambda c: -shares[c])
    works = sorted(("compute", "memory"), key=lambda c: -shares[c])
    first, second = waits[0], waits[1]
    if shares[first] >= NAMES_THE_CLASS:
        if shares[second] >= NAMES_THE_CLASS - NEAR and shares[first] - shares[second] < NEAR:
            return first, second
        return first, works[0] if shares[first] < NAMES_THE_CLASS + NEAR and shares[works[0]] > 0 else ""
    if shares[first] >= NAMES_THE_CLASS - NEAR:
        return works[0], first
    return works[0], works[1] if shares[works[0]] - shares[works[1]] < NEAR else ""


def _confidence(leader: str, share: float, near: bool, grounds: Grounds) -> Confidence:
    unmatched = grounds.alone_of_many or grounds.late_rank_missing
    if not grounds.has_gpu or (leader == "communication" and unmatched):
        return "low"
    if near or grounds.steps < 2 or grounds.lost_share > MANY_LOST:
        return "medium" if not near or share > NAMES_THE_CLASS + NEAR else "low"
    return "medium" if leader in ("compute", "memory") and grounds.sized_share < MOSTLY_SIZED else "high"


def _communication(ledger: tuple[LedgerEntry, ...], grounds: Grounds) -> str:
    """What the class holds: all of exposed communication, or its transfer with what else the ledger counts there."""
    if not grounds.waiting_apart:
        return _SAYS["communication"]
    held = {entry.cause for entry in ledger if entry.ns and entry.class_ == "communication"}
    names = [EXPOSED_TRANSFER if cause == EXPOSED else CAUSES[cause].spoken for cause in CAUSES if cause in held]
    return f"is {' and '.join(names)}" if names else _SAYS["communication"]


def _because(leaders: tuple[str, str], shares: Mapping[str, float], grounds: Grounds, says: Mapping[str, str]) -> str:
    leader, runner_up = leaders
    text = f"{100 * shares[leader]:.1f} % of {grounds.of} {says[leader]}"
    if runner_up:
        text += f", {100 * shares[runner_up]:.1f} % {says[runner_up]}"
    if not grounds.has_gpu:
        text += "; without GPU activity operators are classed by kind"
    elif leader == "communication" and grounds.alone_of_many:
        text += "; one rank of several cannot tell transfer from waiting for a late rank"
    elif leader == "communication" and grounds.late_rank_missing:
        text += "; a rank whose trace is missing may be what they wait for"
    elif leader in ("compute", "memory"):
        some = f", {100 * grounds.sized_share:.0f} % of their time by the roofline" if grounds.sized_share else ""
        how = "the roofline" if grounds.sized_share >= MOSTLY_SIZED else f"kind{some}"
        text += f"; kernels are classed by {how}"
    return text
