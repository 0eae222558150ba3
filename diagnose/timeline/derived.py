"""What several stages need of one thing is derived when it is asked for first."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, Self, TypeVar

T = TypeVar("T")


class Derived:
    """Something of which results are remembered. Nobody writes to them."""

    def once(self, derive: Callable[[Self], T]) -> T:
        """What `derive` makes of this, made at the first call."""
        if derive not in self._derived:
            self._derived[derive] = derive(self)
        found: T = self._derived[derive]
        return found

    @cached_property
    def _derived(self) -> dict[Callable[[Self], Any], Any]:
        return {}
