"""Distance between two runs of one job, which their steps show only in part."""

from diagnose.attribution.causes import CORE_WAIT
from diagnose.attribution.leading import NEAR
from diagnose.commands.compare.side import Side
from diagnose.judge.run_pair import BRIEF_NS, FLOOR, FLOOR_ON_HOST
from diagnose.patch.expected import DEVICE_STEP

FLOOR_ELSEWHERE = 0.060  # and windows of different steps of them
NEAR_STEPS = 32  # windows that begin so close to each other are of one place
BRIEF = (
    f"without a GPU, steps of less than {BRIEF_NS / 1e9:g} s altogether do not tell how cores change their speed: time "
    "more of them, or state how far equal runs lie apart (--noise)"
)


def usual_floor(before: Side, after: Side) -> float:
    """The usual distance between repeats of a run: more if either has no GPU, or if their windows are elsewhere.

    A log is taken to be of GPUs.
    """
    floor = FLOOR_ON_HOST if is_on_host(before, after) else FLOOR
    return max(floor, FLOOR_ELSEWHERE if is_elsewhere(before, after) else FLOOR)


def is_on_host(before: Side, after: Side) -> bool:
    """Whether one of the runs has no GPU."""
    return any(side.kind == "diagnosis" and side.step != DEVICE_STEP for side in (before, after))


def core_wait_of(side: Side) -> float:
    """The share of the side's step that waits for a CPU core, if it is much; else 0."""
    waited_ns = sum(cause.ns for cause in side.causes if cause.cause == CORE_WAIT)
    share = waited_ns / max(sum(cause.ns for cause in side.causes), 1)
    return share if share > NEAR else 0.0


def is_elsewhere(before: Side, after: Side) -> bool:
    """Whether the steps are far apart and share less than half: over a run the step drifts with its data."""
    spans = [(side.first_step, side.last_step) for side in (before, after)]
    known = [(first, last) for first, last in spans if first is not None and last is not None]
    if len(known) < 2 or abs(known[0][0] - known[1][0]) <= NEAR_STEPS:
        return False
    common = min(last for _, last in known) - max(first for first, _ in known) + 1
    return 2 * common < min(last - first + 1 for first, last in known)
