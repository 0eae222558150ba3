"""Caches values that several stages derive from the same object."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Derived:
    """An object whose derived results are cached. Callers must not modify the results."""

    def once(self, derive: Callable[[Self], T]) -> T:
        """The result of `derive` for this object, computed at the first call."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        found: T = self._derived[derive]
        return found

    @cached_property
    def _derived(self) -> dict[Callable[[Self], Any], Any]:
        return {}
