"""Results from the readings of the machine. Frozen; the reports are pure functions of it."""

import msgspec

from diagnose.series.not_told import NotTold


class MachineMove(msgspec.Struct, frozen=True, kw_only=True):
    """A quantity that changed together with the step time: medians of the readings of one rank before and after it.

    `held_by` is what limited the clock in most readings of the slower side. The coincidence does not prove a cause.
    """

    what: str
    unit: str
    before: float
    after: float
    rank: int
    held_by: tuple[str, ...]
    says: str


class MachineBeside(msgspec.Struct, frozen=True, kw_only=True):
    """The changes on the machine together with the step time, the most telling first.

    If `moved` is empty and `not_told` is None, the readings were there and none of them changed.
    """

    moved: tuple[MachineMove, ...]
    not_told: NotTold | None


class MachineQuantity(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity over the run: `typical` is the median of all readings, `worst` the worst one, near `worst_step`.

    `worst_is` is whether that is the "least" or the "most". `worst_rank` is the rank that read it.
    """

    what: str
    unit: str
    typical: float
    worst: float
    worst_is: str
    worst_step: int
    worst_rank: int
    says: str


class HeldDown(msgspec.Struct, frozen=True, kw_only=True):
    """A cause that limited the clock of a GPU, and its share of the readings of the rank that has most of it."""

    by: str
    share: float
    rank: int


class GpuChange(msgspec.Struct, frozen=True, kw_only=True):
    """A count of errors of a GPU that grew, or a link that became slower or went down.

    `before` was so until it changed, `after` is the most of a count and the least of a link, first seen at `step`;
    `last` is how it was in the last reading.
    """

    what: str
    before: float
    after: float
    last: float
    step: int
    rank: int
    says: str


class MachineReport(msgspec.Struct, frozen=True, kw_only=True):
    """The machine over the run.

    `held_down` is None if no reading shows it. `gpu_changes` are the changes for the worse on the GPUs among the fields
    that were read at least twice (`gpu_compared`), None if there are none such. `not_told` are the gaps in the
    readings, with their reasons.
    """

    readings: int
    quantities: tuple[MachineQuantity, ...]
    held_down: tuple[HeldDown, ...] | None
    gpu_changes: tuple[GpuChange, ...] | None
    gpu_compared: tuple[str, ...]
    not_told: tuple[NotTold, ...]
