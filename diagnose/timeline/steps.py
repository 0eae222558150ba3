"""The steps in a trace, with their windows on the host and on the device.

Steps by what repeats: the same kernels in the same order, with a result read by the host in each round.

Layers repeat, too, and some make the host wait. So a period counts only if all of the capture consists of it, and if
something is copied to the host in each round: a loop reads its loss or its token, a layer reads nothing.
"""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np

from diagnose.arrays import Ids, Ints, Mask, numbered
from diagnose.errors import WrongUsage, printable
from diagnose.intervals import one
from diagnose.timeline.kernel_names import classify
from diagnose.timeline.launches import Launches
from diagnose.timeline.step_series import counted_series
from diagnose.timeline.whole_window import used, whole_window
from diagnose.trace import Trace
from diagnose.trace.vocabulary import ANNOTATIONS, OPS, PYTHON, RUNTIME, STEP_MARKS

NAMED_RANGES = "named ranges"
WHOLE = ("window", "unlinked steps")  # the whole capture: without marks, or with ones that hold no linked launch
BY_DEVICE = ("optimizer kernels", "pattern")  # whose boundaries lie on the device
_FIRST_IS_LEFT_OUT_FROM = 3
_MAY_MISS = 0.01  # of the launches of a step


@dataclass(frozen=True)
class StepMarks:
    """The source of the steps, their host windows in order, shape (n, 2), and the number of each.

    `others` are the numbers of marks that another profiler left in the trace.
    """

    source: str
    host: Ints
    numbers: tuple[int, ...]
    others: tuple[int, ...] = ()


@dataclass(frozen=True)
class StepWindows:
    """Host and device windows of the counted steps, [start, end) in nanoseconds, shape (count, 2).

    `numbers` are those of the step marks, by which ranks agree on a step. `dropped_ns` holds the device (else host)
    duration of the first step, when it is left out. `others` are the numbers of another profiler's marks. `uncounted`,
    shape (0 or 1, 2), is what of the capture lies before the first counted step, on the clock that these are accounted
    on: without marks all before the first activity.
    """

    source: str
    host: Ints
    device: Ints
    numbers: tuple[int, ...] = ()
    dropped_ns: tuple[int, ...] = ()
    others: tuple[int, ...] = ()
    uncounted: Ints = field(default_factory=lambda: np.zeros((0, 2), np.int64))

    @property
    def count(self) -> int:
        """Number of counted steps."""
        return len(self.host)

    def each(self, total: float) -> float:
        """The mean over the counted steps of what all of them have together."""
        return total / max(self.count, 1)

    def without(self, numbers: Collection[int]) -> "StepWindows":
        """The steps that go by other numbers; all of them when no other is there."""
        kept = [at for at, own in enumerate(self.numbers) if own not in numbers]
        if not kept:
            return self
        left = tuple(self.numbers[at] for at in kept)
        return replace(self, host=self.host[kept], device=self.device[kept], numbers=left)

    def only(self, number: int) -> "StepWindows":
        """The one step that goes by `number`, as if no other were counted; empty when there is none."""
        kept = [at for at, own in enumerate(self.numbers) if own == number]
        return replace(self, host=self.host[kept], device=self.device[kept], numbers=(number,) * len(kept))


def host_steps(trace: Trace, step_range: re.Pattern[str] | None = None) -> StepMarks:
    """The steps by the first of: ranges that the user names, ProfilerStep, the probe's ranges, ranges called steps,
    optimizer steps, optimizer kernels, what repeats, the window.

    Raises:
        UserError: no range has the name that the user states.
    """
    if step_range is not None:
        return _ranges(trace, stated_ranges(trace, step_range))
    for prefix in STEP_MARKS:
        rows = _marked(trace, prefix, *ANNOTATIONS)
        if len(rows):
            return _marks(trace, prefix, rows)
    if len(rows := ranges_called_steps(trace)):
        return _ranges(trace, rows)
    for source, ends_of in _BY_ENDS.items():
        ends = ends_of(trace)
        if len(ends) >= 2:
            return StepMarks(source, np.stack((ends[:-1], ends[1:]), axis=1), tuple(range(len(ends) - 1)))
    return StepMarks("window", whole_window(trace), (0,))


def _ranges(trace: Trace, rows: Ints) -> StepMarks:
    """Ranges as steps: each lasts until the next begins, since what follows a range belongs to its turn of the loop."""
    begin, end = trace.ts[rows], trace.ends(rows)
    end = np.append(np.maximum(end[:-1], begin[1:]), end[-1:])
    return StepMarks(NAMED_RANGES, np.stack((begin, end), axis=1), tuple(numbers_of(trace, rows).tolist()))


def _marks(trace: Trace, prefix: str, rows: Ints) -> StepMarks:
    numbers = _numbers(trace, rows)
    counted = counted_series(trace, rows, numbers)
    others = np.delete(numbers, counted)
    begin, end = trace.ts[rows[counted]], trace.ends(rows[counted])
    end[:-1] = np.minimum(end[:-1], begin[1:])  # times that were rounded overlap
    windows = np.stack((begin, end), axis=1)
    return StepMarks(prefix, windows, tuple(numbers[counted].tolist()), tuple(sorted(others.tolist())))


def whole_steps(marks: StepMarks, launches: Launches) -> Mask:
    """Mask of the steps, without the first and last ones whose GPU activities were not recorded.

    What was launched before the GPU's recording began, or ran after it or the file ended, would make short steps of
    full work.
    """
    numbers = np.arange(len(marks.host))
    whole = np.ones(len(numbers), bool)
    if launches.cut.any():
        whole &= numbers <= _having_all(marks, launches.at, launches.cut).max(initial=-1)
    if launches.early.any():
        whole &= numbers >= _having_all(marks, launches.at, launches.early).min(initial=len(numbers))
    return whole


def _having_all(marks: StepMarks, launched: Ints, missing: Mask) -> Ints:
    """The steps that launch something and have nearly all of its activities, by number."""
    steps, inside = len(marks.host), launched >= marks.host[0, 0]
    at = np.searchsorted(marks.host[:, 1], launched, side="right")
    made, lost = (np.bincount(at[of], minlength=steps)[:steps] for of in (inside, inside & missing))
    return np.flatnonzero((made > 0) & (lost <= _MAY_MISS * made))


def device_steps(trace: Trace, marks: StepMarks, start: Ints, end: Ints, launched: Ints, whole: Mask) -> StepWindows:
    """Step k ends on the device when the last activity launched during host steps up to k ends.

    Only whole steps count, if any of them has work.

    Args:
        trace: the rank's trace.
        marks: its steps on the host.
        start: start of each GPU activity, in order.
        end: end of each.
        launched: launch time of each, the smallest integer if not known.
        whole: mask of the steps that have all their activities.
    """
    inside = launched >= marks.host[0, 0]
    if marks.source in ("window", *BY_DEVICE) or not inside.any():
        return _by_device_clock(trace, marks, start, end, launched)
    step = np.searchsorted(marks.host[:, 1], launched, side="right")
    begin = max(int(marks.host[0, 0]), int(end[~inside].max(initial=np.iinfo(np.int64).min)))
    counted = inside & (step < len(marks.host))
    worked = np.bincount(step[counted], minlength=len(marks.host)) > 0
    last = np.full(len(marks.host), begin, np.int64)
    np.maximum.at(last, step[counted], end[counted])
    ends = np.maximum.accumulate(last)
    device = np.stack((np.concatenate(([begin], ends[:-1])), ends), axis=1)
    worked &= device[:, 1] > device[:, 0]
    kept = worked & whole if (worked & whole).any() else worked
    at = int(kept.argmax())
    if at and not whole[at - 1]:  # the device's work before it was not recorded
        device[at, 0] = max(int(device[at, 0]), int(start[counted & (step == at)].min(initial=device[at, 1] - 1)))
    return _counted(trace, marks, device, kept, 0 if at else int(worked.sum()))


def host_only(trace: Trace, marks: StepMarks) -> StepWindows:
    """The counted steps of a trace without GPU activity."""
    return _counted(trace, marks, marks.host, (marks.host[:, 1] > marks.host[:, 0]) & ~_rest(trace, marks))


def _rest(trace: Trace, marks: StepMarks) -> Mask:
    """Mask of the last step if no operator ran in it, as in others: the profiler opens one that the training never
    begins.
    """
    rest = np.zeros(len(marks.host), bool)
    if marks.source in STEP_MARKS and len(rest) > 1:
        begins = trace.ts[trace.rows_of(*OPS)]
        worked = [bool(((begins >= begin) & (begins < end)).any()) for begin, end in marks.host[[-2, -1]].tolist()]
        rest[-1] = worked == [True, False]
    return rest


def _by_device_clock(trace: Trace, marks: StepMarks, start: Ints, end: Ints, launched: Ints) -> StepWindows:
    """Steps whose boundaries lie on the device: without links to launches there is no other clock to use."""
    first, last = int(start.min()), int(end.max())
    rows = _marked(trace, "ProfilerStep", "gpu_user_annotation")
    if marks.others:
        rows = rows[np.isin(_numbers(trace, rows), marks.numbers)]
    if marks.source not in BY_DEVICE and len(rows):
        begins, first_at = np.unique(trace.ts[rows], return_index=True)
        device = np.stack((begins, np.append(begins[1:], max(last, int(begins[-1]) + 1))), axis=1)
        marks = StepMarks("ProfilerStep", device, tuple(_numbers(trace, rows)[first_at].tolist()), marks.others)
    elif marks.source not in BY_DEVICE:
        begin, end_of_host = _host_window(trace, int(launched[start.argmin()]), (first, last))
        source = WHOLE[marks.source != WHOLE[0]]
        marks = StepMarks(source, np.array([[begin, end_of_host]]), (0,))
        device = np.array([[first, last]])
    else:
        device = np.clip(marks.host, first, last)
    return _counted(trace, marks, device, device[:, 1] > device[:, 0])


def _host_window(trace: Trace, launched: int, device: tuple[int, int]) -> tuple[int, int]:
    """The host's part of a window without marks: from the operator that launches the first activity to the last call.

    Args:
        trace: the rank's trace.
        launched: when the first activity was launched, the smallest integer when that is not known.
        device: when the first activity starts and the last one ends.
    """
    host = np.flatnonzero(trace.rows_of(*RUNTIME, *ANNOTATIONS, *PYTHON))
    if not len(host):
        return device
    begin = min(int(trace.ts[host].min()), device[0])
    if launched >= begin:
        around = trace.rows_of(*OPS) & (trace.ts <= launched) & (trace.ts + trace.dur > launched)
        begin = min(int(trace.ts[around].min(initial=launched)), device[0])
    return begin, max(int(trace.ends(host).max()), begin + 1)


def _counted(trace: Trace, marks: StepMarks, device: Ints, keep: Mask, recorded: int = 0) -> StepWindows:
    """Leaves out steps without work, and the first of three or more, kept or `recorded`: it holds the start."""
    rows = np.flatnonzero(keep)
    dropped: tuple[int, ...] = ()
    if len(rows) > 1 and max(len(rows), recorded) >= _FIRST_IS_LEFT_OUT_FROM:
        dropped = (int(device[rows[0], 1] - device[rows[0], 0]),)
        rows = rows[1:]
    if not len(rows):
        rows = np.arange(len(marks.host))
    begin, first = int(trace.ts[used(trace)].min()), int(device[rows[0], 0])
    numbers = tuple(marks.numbers[r] for r in rows)
    return StepWindows(marks.source, marks.host[rows], device[rows], numbers, dropped, marks.others, one(begin, first))


def _marked(trace: Trace, prefix: str, *categories: str) -> Ints:
    """Rows of the events of the categories whose name begins with `prefix`, by start."""
    rows = np.flatnonzero(trace.named_in(lambda name: name.startswith(prefix), *categories))
    return rows[np.argsort(trace.ts[rows], kind="stable")]


def _numbers(trace: Trace, rows: Ints) -> Ints:
    """The number in the name of each mark, else its position."""
    found = (re.search(r"#(\d{1,15})$", trace.names[name]) for name in trace.name[rows].tolist())
    return np.array([int(each[1]) if each else at for at, each in enumerate(found)], np.int64)


def _optimizer_ends(trace: Trace) -> Ints:
    """Ends of the optimizer that steps least often: with several optimizers a step ends once."""
    rows = _marked(trace, "Optimizer.step#", *ANNOTATIONS)
    if not len(rows):
        return np.zeros(0, np.int64)
    names, times = np.unique(trace.name[rows], return_counts=True)
    return np.sort(trace.ends(rows[trace.name[rows] == names[times.argmin()]]))


def _optimizer_kernel_bursts(trace: Trace) -> Ints:
    """Ends of the bursts of optimizer kernels, for optimizers that leave no range."""
    gpu = np.flatnonzero(trace.rows_of("kernel"))
    order = gpu[np.argsort(trace.ts[gpu], kind="stable")]
    names, which = numbered(trace.name[order])
    optimizer = np.array([classify(trace.names[name]).family == "optimizer" for name in names], bool)[which]
    if not optimizer.any():
        return np.zeros(0, np.int64)
    last = np.flatnonzero(optimizer & ~np.concatenate((optimizer[1:], [False])))
    ends = trace.ends(order[last])
    if len(ends) < 2:
        return np.zeros(0, np.int64)
    far = np.diff(ends) > 0.5 * np.median(np.diff(ends))
    return ends[np.concatenate((far, [True]))]


_LEAST_ROUNDS = 3
_LEAST_KERNELS = 4
_MOST_CANDIDATES = 64


def round_ends(trace: Trace) -> Ints:
    """The end of the last kernel of each round; empty without a period. Incomplete rounds at the edges are left out."""
    kernels = np.flatnonzero(trace.rows_of("kernel"))
    kernels = kernels[np.argsort(trace.ts[kernels], kind="stable")]
    copies = trace.named_in(lambda name: "DtoH" in name, "gpu_memcpy")
    read = np.unique(np.searchsorted(trace.ts[kernels], trace.ts[copies], side="right"))
    read = read[read > 0]
    period = _period(trace.name[kernels], read)
    ended = np.maximum.accumulate(trace.ends(kernels))
    return ended[_cuts(read, period, len(kernels)) - 1] if period else ended[:0]


def _period(names: Ids, read: Ints) -> int:
    """Number of kernels after which the order of names repeats, by the distances at which results are read; else 0."""
    apart = np.unique(read[1:] - read[0]) if len(read) else read
    for period in apart[apart >= _LEAST_KERNELS][:_MOST_CANDIDATES].tolist():
        if _LEAST_ROUNDS * period > len(names):
            return 0
        if bool((names[period:] == names[:-period]).all()):
            return int(period)
    return 0


def _cuts(read: Ints, period: int, count: int) -> Ints:
    """Numbers of kernels before each boundary: behind the first read that comes again in every round."""
    for first in read[read < read[0] + period].tolist():
        cuts = np.arange(first, count + 1, period)
        if np.isin(cuts, read).all():
            return cuts
    return read[:0]


_BY_ENDS = {
    "Optimizer.step": _optimizer_ends,
    "optimizer kernels": _optimizer_kernel_bursts,
    "pattern": round_ends,
}


# Steps by the names of ranges: those that the user states, and those that are called what loops call their steps.

_LOOP = r"(?:(?:train(?:ing)?|global)[ _-]?)?(?:steps?|iters?|iterations?|batch)"
_NUMBERED = rf"{_LOOP}(?:[ _#:=\[-]*\d+(?:[,/]\d+)?[\])]?)?"
_CALLED_STEP = re.compile(rf"{_NUMBERED}|\[pl\]\[profile\]run_training_batch", re.IGNORECASE)
_NUMBER = re.compile(r"\d{1,15}")
_COVERED = 0.5  # of the time from the first to the last: an update that is called "step" covers less
_LISTED = 8


def stated_ranges(trace: Trace, pattern: re.Pattern[str]) -> Ints:
    """Rows of the ranges that the pattern finds, by start, without those inside others.

    Raises:
        UserError: there is none.
    """
    rows = _outermost(trace, np.flatnonzero(trace.named_in(pattern.search, *ANNOTATIONS)))
    if len(rows):
        return rows
    times = Counter(trace.names[name] for name in trace.name[trace.rows_of("user_annotation")].tolist())
    listed = ", ".join(printable(name)[:60] for name, _ in times.most_common(_LISTED))
    why = f"the commonest are {listed}" if listed else "the trace has no ranges of the job's own"
    do = "give the name of a range around a step, as --step-range 'iteration \\d+'"
    raise WrongUsage(f"no range is named like {printable(pattern.pattern)}", where=trace.path, why=why, do=do)


def ranges_called_steps(trace: Trace) -> Ints:
    """Rows of the ranges named like steps, in order of start; none unless they cover most of the time between them."""
    called = trace.named_in(_CALLED_STEP.fullmatch, "user_annotation")
    rows = _outermost(trace, np.flatnonzero(called))
    if len(rows) < 2:
        return rows[:0]
    span = int(trace.ends(rows).max()) - int(trace.ts[rows[0]])
    return rows if int(trace.dur[rows].sum()) >= _COVERED * span else rows[:0]


def numbers_of(trace: Trace, rows: Ints) -> Ints:
    """The first number in each name if these count upwards, else the index of each."""
    found = [_NUMBER.search(trace.names[name]) for name in trace.name[rows].tolist()]
    numbers = np.array([int(each[0]) if each else -1 for each in found], np.int64)
    counted = bool((numbers >= 0).all()) and bool((np.diff(numbers) > 0).all())
    return numbers if counted else np.arange(len(rows))


def _outermost(trace: Trace, rows: Ints) -> Ints:
    """The ranges of the thread with most of their time, in order of start, without those that begin inside another."""
    if not len(rows):
        return rows
    threads, which = np.unique(trace.tid[rows], return_inverse=True)
    rows = rows[which == np.bincount(which, weights=trace.dur[rows], minlength=len(threads)).argmax()]
    rows = rows[np.lexsort((-trace.dur[rows], trace.ts[rows]))]
    ended = np.concatenate(([np.iinfo(np.int64).min], np.maximum.accumulate(trace.ends(rows))[:-1]))
    return rows[trace.ts[rows] >= ended]
