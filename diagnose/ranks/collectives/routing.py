"""The balance of all-to-alls, which carry for example the tokens of a mixture of experts."""

from collections.abc import Sequence

import numpy as np

from diagnose.arrays import Ints
from diagnose.formulas import share
from diagnose.ranks.collectives.kinds import plain_kind
from diagnose.ranks.collectives.matching import GroupMatch, Match
from diagnose.ranks.digest import RankDigest

ALL_TO_ALL = "alltoall"


def routed(ranks: Sequence[RankDigest], matched: Match, position: int) -> float | None:
    """Elements that all-to-alls brought to a rank's experts, over the median of the other ranks of its group.

    On the way there the ranks send equal and receive unequal amounts, on the way back the reverse: the uneven side
    counts. None if the rank takes part in none whose sizes were recorded.
    """
    loads = [
        (load, group) for group in matched if position in group.members and (load := _load(ranks, group)) is not None
    ]
    if not loads:
        return None
    load, group = max(loads, key=lambda pair: int(pair[0].sum()))
    is_own = group.members == position
    return share(load[is_own][0], np.median(load[~is_own]))


def _load(ranks: Sequence[RankDigest], group: GroupMatch) -> Ints | None:
    """Elements on the uneven side of a group's all-to-alls, shape (members,)."""
    members = [ranks[p].calls for p in group.members.tolist()]
    is_all_to_all = np.array([plain_kind(kind) == ALL_TO_ALL for kind in members[0].kinds], bool)
    rows = group.call[is_all_to_all[members[0].kind[group.call[:, 0]]]]
    if not len(rows) or group.paired or any(len(calls.sent) != len(calls) for calls in members):
        return None
    sent = np.stack([calls.sent[rows[:, m]] for m, calls in enumerate(members)], axis=1)
    received = np.stack([calls.received[rows[:, m]] for m, calls in enumerate(members)], axis=1)
    if min(sent.min(), received.min()) < 0:
        return None
    on_receipt = np.ptp(received, axis=1) >= np.ptp(sent, axis=1)
    return np.asarray(np.where(on_receipt[:, None], received, sent).sum(axis=0))
