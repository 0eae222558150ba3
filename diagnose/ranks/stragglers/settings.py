"""Recorded settings and surroundings of a late rank that differ from those of the other ranks."""

from collections import Counter
from collections.abc import Iterator, Sequence

from diagnose.facts import Scalar
from diagnose.ranks.digest import RankDigest

TOLD = 4
LONGEST = 60
_SET_OR_NOT = "environment."  # where nothing is recorded, the variable is not set
_UNSET = "not set"
Differing = tuple[str, Scalar, Scalar]  # path, value of the rank, value of most others


def settings_unlike(number: int, ranks: Sequence[RankDigest]) -> str:
    """The settings of the rank of that number which most of the others have otherwise, in words; "" if there are none.

    A setting on which the others disagree among themselves says nothing.
    """
    rank = next(rank for rank in ranks if rank.rank == number)
    found = list(_unlike(rank, [other for other in ranks if other is not rank]))
    told = [f"{path} {_short(mine)} (the others {_short(theirs)})" for path, mine, theirs in found[:TOLD]]
    more = f" and {len(found) - TOLD} more" if len(found) > TOLD else ""
    return ", ".join(told) + more


def _unlike(rank: RankDigest, others: Sequence[RankDigest]) -> Iterator[Differing]:
    known = {id(other.settings): other.settings for other in others if other.settings}  # ranks share those that agree
    ranks_of = Counter(id(other.settings) for other in others)
    mine, theirs = dict(rank.settings), {which: dict(settings) for which, settings in known.items()}
    for path in dict.fromkeys([*mine, *(path for each in theirs.values() for path in each)] if mine else ()):
        unset = _UNSET if path.startswith(_SET_OR_NOT) else None
        value, values = mine.get(path, unset), Counter[Scalar | None]()
        for which, each in theirs.items():
            values[each.get(path, unset)] += ranks_of[which]
        usual, count = values.most_common(1)[0] if values else (None, 0)
        if value is not None and usual is not None and value != usual and 2 * count > len(others):
            yield path, value, usual


def _short(value: Scalar) -> str:
    text = f"{value:,g}" if isinstance(value, float) else str(value)
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
