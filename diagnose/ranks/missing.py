"""Ranks of the job of which there is no trace."""

from collections.abc import Sequence

from diagnose.timeline import Timeline

_LARGEST_WORLD = 1 << 17  # what a damaged file states is not counted up to


def missing_ranks(timelines: Sequence[Timeline], others: Sequence[int] = ()) -> tuple[int, ...]:
    """The ranks below the largest world size stated that are neither in `timelines` nor among `others`."""
    stated = [_world(timeline.trace.metadata.get("distributedInfo")) for timeline in timelines]
    world = max(stated, default=0)
    if world > _LARGEST_WORLD:
        return ()
    return tuple(sorted({*range(world)} - {t.rank for t in timelines} - {*others}))


def _world(info: object) -> int:
    size = info.get("world_size") if isinstance(info, dict) else None
    return size if isinstance(size, int) else 0
