"""The reason why there is no answer."""

import msgspec


class NotTold(msgspec.Struct, frozen=True, kw_only=True):
    """The reason why there is no answer, and what to record so that there is one."""

    because: str
    capture_next: str
