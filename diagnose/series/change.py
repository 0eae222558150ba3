"""The data type of a change of the step time, shared by every answer that reports one."""

from typing import Literal

import msgspec

from diagnose.series.machine.findings import MachineBeside

Scope = Literal["job", "hosts", "ranks", "unknown"]
Confidence = Literal["high", "medium", "low"]


class PartChange(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a logged part of a step, before and after, in seconds: the median over the medians of ranks.

    The ranks are those that the others wait for if the change names them, else those affected.
    """

    part: str
    before_s: float
    after_s: float


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The step time moved to another level, or drifted to it.

    `change_share` is of `before_s`, the median step time of the steps from `before_from_step` to `since_step` - 1;
    positive is slower. The level lasts until `until_step`. `since_between` are the steps that could equally be the
    first. `ranks` and `hosts` are those affected, all of them if `scope` is "job"; it is "unknown" if the source does
    not distinguish ranks. `named_by` is the logged part that shows the rank that the others wait for, "" if none does.
    `lost_s` is the time that the change cost one rank until `until_step`. `machine` is what changed on the machine at
    the same time, None if the source has no readings.
    """

    kind: Literal["level", "drift"]
    since_step: int
    since_between: tuple[int, int]
    before_from_step: int
    until_step: int
    before_s: float
    after_s: float
    change_share: float
    lost_s: float
    scope: Scope
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    confidence: Confidence
    p_value: float
    says: str
    parts: tuple[PartChange, ...] = ()
    culprit_ranks: tuple[int, ...] = ()
    culprit_hosts: tuple[str, ...] = ()
    named_by: str = ""
    at_restart: bool = False
    run: str = ""
    machine: MachineBeside | None = None
