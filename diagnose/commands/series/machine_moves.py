"""Find readings of the machine that changed together with the step time: at a change of its level, and during a stall.

They are facts that came together. Only a run without one of them can show whether it caused the other.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from diagnose.arrays import Floats, Mask
from diagnose.series.machine.findings import MachineBeside, MachineMove
from diagnose.series.machine.quantities import CLOCK, QUANTITIES, Quantity
from diagnose.series.machine.readings import MachineReadings
from diagnose.series.not_told import NotTold
from diagnose.trace.readings import spoken_reasons

MOST_MOVED = 4
LEAST_READINGS = 4
_APART = 0.8  # share of the pairs of a reading before and one after in which the later one is the worse
_DEVIATIONS = 3.0
_MOST_COMPARED = 400
_AROUND = 64  # readings on each side of a stall that show what is usual
_LEAST_USUAL = 8
_BEYOND = 0.98
_LEAST_PART = 0.25  # of the time that a reading is about: a shorter stall is lost in it
_HELD = 0.5
_LONGER = "a longer stretch, or a run of minutes: a reading comes every two seconds at first"

Steps = tuple[float, float]


@dataclass(frozen=True)
class _Pair:
    """A quantity of one rank before and after; `times` is the change in units of its least difference."""

    of: Quantity
    readings: MachineReadings
    before: float
    after: float
    held_by: tuple[str, ...]

    @property
    def times(self) -> float:
        unit = self.of.least * (abs(self.before) if self.of.relative else 1.0)
        return abs(self.after - self.before) / max(unit, 1e-12)


def machine_at_change(machines: Sequence[MachineReadings], before: Steps, after: Steps, slower: bool) -> MachineBeside:
    """Readings that changed for the worse, or for the better if the steps are not `slower`.

    Args:
        machines: the ranks whose readings may show why.
        before, after: first and last step on each side.
        slower: whether steps take longer after it.
    """
    enough, pairs = False, []
    for machine in machines:
        sides = _within(machine, before), _within(machine, after)
        for quantity, was, is_ in _sides(machine, *sides):
            enough = True
            if _differ(was, is_, quantity.worse if slower else -quantity.worse):
                middle = float(np.median(was)), float(np.median(is_))
                pairs.append(_Pair(quantity, machine, *middle, _held(machine, sides[slower])))
    if not enough:
        because = f"on one side of it are fewer than {LEAST_READINGS} readings of the machine"
        return MachineBeside(moved=(), not_told=NotTold(because=because, capture_next=_LONGER))
    return _moved_most(pairs, len(machines) > 1)


def machine_at_stall(machines: Sequence[MachineReadings], first: int, last: int, time_s: float) -> MachineBeside:
    """Readings that were worse during a stall of `time_s` seconds at the steps `first` to `last` than around it."""
    seen, pairs = False, []
    for machine in machines:
        during, around = _during(machine, first, last)
        if time_s < _LEAST_PART * float(machine.over_s[during].max(initial=0.0)):
            continue
        for quantity in QUANTITIES:
            values = machine.values.get(quantity.name)
            if values is None or not quantity.worse or not quantity.least:
                continue
            usual, now = _known(values[around]), _over_time(values[during], machine.over_s[during])
            if len(usual) < _LEAST_USUAL or now is None:
                continue
            seen = True
            worst = np.quantile(usual * quantity.worse, _BEYOND)
            if now * quantity.worse > worst:
                pairs.append(_Pair(quantity, machine, float(np.median(usual)), now, _held(machine, during)))
    if not seen:
        because = "no reading of the machine is about it: it is short beside the time between two, or they are few"
        return MachineBeside(moved=(), not_told=NotTold(because=because, capture_next=_LONGER))
    return _moved_most(pairs, len(machines) > 1)


def _moved_most(pairs: Sequence[_Pair], several: bool) -> MachineBeside:
    """The report of each quantity on the rank where it moved most; the farthest first, GPU quantities before others."""
    large = [pair for pair in pairs if pair.of.moved(pair.before, pair.after)]
    farthest: dict[str, _Pair] = {}
    for pair in sorted(large, key=lambda pair: -pair.times):
        farthest.setdefault(pair.of.name, pair)
    gpu_first = sorted(farthest.values(), key=lambda pair: (pair.of.on != "gpu", -pair.times))
    return MachineBeside(moved=tuple(_move(pair, several) for pair in gpu_first[:MOST_MOVED]), not_told=None)


def _move(pair: _Pair, several: bool) -> MachineMove:
    of, rank = pair.of, pair.readings.rank
    held = pair.held_by if of.name == CLOCK else ()
    on = f" on rank {rank}" if several else ""
    when = "before " if pair.after > pair.before else ""
    by = f", {when}held down by {' and '.join(held)}" if held else ""
    says = f"{of.what}{on}: {of.spoken(pair.before)} -> {of.spoken(pair.after)}{by}"
    return MachineMove(
        what=of.what, unit=of.unit, before=pair.before, after=pair.after, rank=rank, held_by=held, says=says
    )


def _within(machine: MachineReadings, steps: Steps) -> Mask:
    return np.asarray((machine.step >= steps[0]) & (machine.step <= steps[1]), np.bool_)


def _sides(machine: MachineReadings, before: Mask, after: Mask) -> Iterator[tuple[Quantity, Floats, Floats]]:
    """The quantities that may show something, if both sides have enough readings of them."""
    for quantity in QUANTITIES:
        values = machine.values.get(quantity.name)
        if values is not None and quantity.worse and quantity.least:
            was, is_ = _known(values[before]), _known(values[after])
            if min(len(was), len(is_)) >= LEAST_READINGS:
                yield quantity, was, is_


def _differ(was: Floats, is_: Floats, up: int) -> bool:
    """Whether nearly all readings of one side exceed those of the other (Mann and Whitney, 1947)."""
    was, is_ = (_thinned(values * up) for values in (was, is_))
    share = float(np.mean(is_[:, None] > was) + np.mean(is_[:, None] == was) / 2)
    error = ((len(was) + len(is_) + 1) / (12 * len(was) * len(is_))) ** 0.5
    return share == 1.0 or (share >= _APART and (share - 0.5) / error >= _DEVIATIONS)


def _during(machine: MachineReadings, first: int, last: int) -> tuple[Mask, Mask]:
    """Masks of the readings during the stall with the first after it, and of those around."""
    count = len(machine)
    begin = int(np.searchsorted(machine.step, first - 1, "left"))
    end = min(int(np.searchsorted(machine.step, last, "left")) + 1, count)
    during = np.zeros(count, np.bool_)
    during[begin:end] = True
    around = np.zeros(count, np.bool_)
    around[max(begin - _AROUND, 0) : end + _AROUND] = True
    return during, around & ~during


def _over_time(values: Floats, over_s: Floats) -> float | None:
    """Mean over the time that the readings cover; the median if they cover none."""
    known = np.isfinite(values)
    if not known.any():
        return None
    weights = over_s[known]
    return float(np.average(values[known], weights=weights) if weights.sum() > 0 else np.median(values[known]))


def _held(machine: MachineReadings, chosen: Mask) -> tuple[str, ...]:
    """Reasons that held the clock down in most of these readings, in words."""
    told = [machine.held_by[at] for at in np.flatnonzero(chosen).tolist()]
    known = [reasons for reasons in told if reasons is not None]
    counted = Counter(reason for reasons in known for reason in set(reasons))
    return spoken_reasons([reason for reason, count in counted.items() if count > _HELD * len(known)])


def _known(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _thinned(values: Floats) -> Floats:
    return values[:: -(-len(values) // _MOST_COMPARED)]
