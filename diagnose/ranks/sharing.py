"""Digests of a job's ranks that hold once what they have in common: every rank lists the ranks of its groups."""

from collections.abc import Hashable
from typing import TypeVar

from msgspec.structs import replace

from diagnose.ranks.digest import RankDigest

_Value = TypeVar("_Value", bound=Hashable)


class Shared:
    """Share equal values between digests; without it the memory of a job would grow with the square of its ranks."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Hashable] = {}

    def sharing(self, digest: RankDigest) -> RankDigest:
        """The same digest, what equals another's in the place of its own."""
        calls, families = digest.calls, digest.families
        groups = tuple(self._first(group) for group in calls.groups)
        return replace(
            digest,
            causes=self._first(digest.causes),
            calls=replace(calls, groups=groups, kinds=self._first(calls.kinds)),
            families=replace(families, names=self._first(families.names)),
            settings=self._first(digest.settings),
            host_work={self._first(place): ran for place, ran in digest.host_work.items()},
        )

    def _first(self, value: _Value) -> _Value:
        return self._known.setdefault(value, value)  # type: ignore[return-value]
