"""Whether a late rank's host runs more code than the other ranks', or the same code slower, and where."""

import re
from collections.abc import Sequence

import msgspec
import numpy as np

from diagnose.arrays import Floats
from diagnose.diagnosis.postmortem import HostCode
from diagnose.facts import duration
from diagnose.ranks.digest import RankDigest
from diagnose.ranks.host_work import HostKind, HostTime
from diagnose.trace.python_frames import user_frame

EXPLAINS = 0.5  # part of the lateness that slower operators, or one place of the code, have to account for
SLOWER = 1.04  # times as long each: less is noise
MORE_OFTEN = 1.1  # times as many calls
FEWEST = 3  # names of operators that are compared
_WAITS = re.compile(r"aten::(item|_local_scalar_dense|is_nonzero|nonzero|copy_|to|_to_copy)$|c10d::|record_param_comms")
Place = tuple[HostKind, str]
_KINDS: tuple[HostKind, ...] = ("function", "range", "operator")


class HostEvidence(msgspec.Struct, frozen=True):
    """How a late rank's host differs from the others': `where` is the place with most of the excess, "" if none."""

    code: HostCode
    says: str = ""
    where: str = ""


class UsualHostTime(msgspec.Struct, frozen=True):
    """Nanoseconds and calls of one name in one step."""

    ns: float
    count: float


NONE = HostEvidence("none")
NOTHING = HostTime(0, 0)


def host_evidence(rank: RankDigest, peers: Sequence[RankDigest], extra_ns: float) -> HostEvidence:
    """Find what makes a rank's host late by that many nanoseconds per step.

    A host that is slower takes longer for each of the operators that the other ranks run too, in proportion to how much
    longer its whole step is. If they take the same time, it runs something that the others do not; the same holds if
    too few operators are compared and one place that they do not run accounts for half of the lateness.
    """
    slower, place = _slower(rank, peers), _place(rank, peers, extra_ns)
    if slower is None:
        alone = place is not None and not _usual(place, peers).count
        return HostEvidence("more" if alone else "unknown", where=_described(place, rank, peers))
    alike_ns = max(rank.host_ns / max(rank.steps, 1) - extra_ns, 1.0)
    if slower >= max(SLOWER, 1 + EXPLAINS * extra_ns / alike_ns):
        return HostEvidence("slower", f"each of its operators takes {slower:.2f} times as long on its host")
    says = f"the operators that all ranks run take {slower:.2f} times as long there, so it runs more code"
    return HostEvidence("more", says, _described(place, rank, peers))


def more_code(rank: RankDigest, peers: Sequence[RankDigest], extra_ns: float) -> HostEvidence:
    """Evidence for a rank that is known to run more code: the place where it runs code that the others do not."""
    return HostEvidence("more", where=_described(_place(rank, peers, extra_ns, more_often=True), rank, peers))


def _slower(rank: RankDigest, peers: Sequence[RankDigest]) -> float | None:
    """Median over the operators' calls of how much longer one takes than on the median of the other ranks."""
    ratios, counts = [], []
    for (kind, name), ran in rank.host_work.items():
        if kind != "operator" or _WAITS.match(name):
            continue
        theirs = [other for peer in peers if (other := peer.host_work.get((kind, name))) is not None]
        if 2 * len(theirs) > len(peers):
            usual = float(np.median([_each(other) for other in theirs]))
            ratios.append(_each(ran) / max(usual, 1.0))
            counts.append(min(ran.count, *(other.count for other in theirs)))
    return _weighted_median(np.array(ratios), np.array(counts)) if len(ratios) >= FEWEST else None


def _each(ran: HostTime) -> float:
    return ran.ns / max(ran.count, 1)


def _weighted_median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values, kind="stable")
    upto = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(upto, upto[-1] / 2)])


def _place(rank: RankDigest, peers: Sequence[RankDigest], extra_ns: float, *, more_often: bool = False) -> Place | None:
    """The tightest place that accounts for half of the excess: a function of the job first, then a range, an operator.

    Time includes what runs inside, so the callers of that place account for it too, and take longer. With `more_often`,
    only places that the rank runs more often than the other ranks.
    """
    found = {
        key: ran.ns / max(rank.steps, 1)
        for key, ran in rank.host_work.items()
        if ran.ns / max(rank.steps, 1) >= EXPLAINS * extra_ns  # else the others need not be looked at
        if ran.ns / max(rank.steps, 1) - _usual(key, peers).ns >= EXPLAINS * extra_ns
        if not more_often or ran.count / max(rank.steps, 1) >= MORE_OFTEN * _usual(key, peers).count
    }
    for kind in _KINDS:
        places = [key for key in found if key[0] == kind]
        own = [key for key in places if kind != "function" or user_frame(key[1]) is not None]
        if places:
            return min(own or places, key=lambda key: found[key])
    return None


def _usual(key: Place, peers: Sequence[RankDigest]) -> UsualHostTime:
    """Time and number of the place in one step of the median of the other ranks."""
    each = [(peer.host_work.get(key, NOTHING), max(peer.steps, 1)) for peer in peers]
    ns, count = (float(np.median(values)) for values in zip(*((r.ns / n, r.count / n) for r, n in each), strict=True))
    return UsualHostTime(ns, count)


def _described(key: Place | None, rank: RankDigest, peers: Sequence[RankDigest]) -> str:
    if key is None:
        return ""
    kind, name = key
    lasted, usual = rank.host_work[key].ns / max(rank.steps, 1), _usual(key, peers).ns
    than = f"instead of {duration(usual)}" if usual else "which the other ranks do not run"
    return f"{kind} {name}, {duration(lasted)} per step{' ' if usual else ', '}{than}"
