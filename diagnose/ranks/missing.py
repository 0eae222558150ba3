"""Ranks of the job of which there is no trace."""

from collections.abc import Sequence

from diagnose.ranks.digest import RankDigest

_LARGEST_WORLD = 1 << 17  # a damaged file may state any size; it is not counted up to


def missing_ranks(ranks: Sequence[RankDigest], others: Sequence[int] = ()) -> tuple[int, ...]:
    """The ranks below the largest world size stated that are neither in `ranks` nor among `others`."""
    world_size = max((rank.world_size or 0 for rank in ranks), default=0)
    if world_size > _LARGEST_WORLD:
        return ()
    return tuple(sorted({*range(world_size)} - {rank.rank for rank in ranks} - {*others}))
