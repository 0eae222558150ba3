"""A remedy's change to a step: factors on durations, waits that vanish, and how collectives behave."""

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from diagnose.arrays import Coded, Floats, Ints, Mask
from diagnose.attribution.causes import AROUND_OPERATORS, EXPOSED, IDLE, OPERATORS, OPTIMIZER_OPERATORS, WAITING
from diagnose.predict.replay.host_speeds import AS_PROFILED, HostSpeeds


@dataclass(frozen=True)
class StepChange:
    """A change to a step; the default changes nothing.

    Attributes:
        kernels: factor on the duration of each GPU activity, aligned with `timeline.gpu`. An activity with factor 0
            vanishes together with its launch and the operator time that issued it, unless `host` gives the rest of that
            time.
        merge: mask over `timeline.gpu` of activities that fuse: of each run of neighbours on a stream only the first is
            launched, as above. Durations follow `kernels`.
        host: factor on host time by cause of the breakdown ("data-wait", "dispatch", "python", ...); "launch-latency"
            and "kernel-gap" scale those two. "sync" scales the time of the calls apart from waiting; `no_wait` removes
            the wait. Without a GPU the causes are those of that breakdown, operators and waiting for ranks included.
        no_wait: mask over the events of `timeline.trace`: blocking calls that no longer wait for the device.
        launches: factor on the host time of every launch outside the optimizer's step: the call and the operator time
            that issued it.
        communication: factor on the duration of collectives.
        overlap: whether collectives delay no later kernel: they run on streams of their own that no kernel waits for.
        communication_keeps: "duration": a collective takes as long as before the change. "end": the other ranks do not
            change, so that a step with collectives takes at least as long as before.
        host_speeds: factors on host time from the profiled to the unprofiled speed.

    Raises:
        ValueError: `host` names a cause that no breakdown has, or a factor is negative.
    """

    kernels: Coded | None = None
    merge: Mask | None = None
    host: Mapping[str, float] = field(default_factory=dict)
    no_wait: Mask | None = None
    launches: float = 1.0
    communication: float = 1.0
    overlap: bool = False
    communication_keeps: Literal["duration", "end"] = "duration"
    host_speeds: HostSpeeds = AS_PROFILED

    def __post_init__(self) -> None:
        unknown = set(self.host) - {*IDLE, *AROUND_OPERATORS, *OPERATORS, OPTIMIZER_OPERATORS, EXPOSED, *WAITING}
        if unknown:
            raise ValueError(f"the ledger has no cause {', '.join(sorted(unknown))}")
        smallest = min((self.launches, self.communication, *self.host.values()))
        if smallest < 0 or (self.kernels is not None and (self.kernels.values < 0).any()):
            raise ValueError("a factor below 0 would turn time back")

    def factors(self, causes: tuple[str, ...]) -> Floats:
        """The factor on host time of each of `causes`, the host's speed left out."""
        return np.array([self.host.get(cause, 1.0) for cause in causes], np.float64)

    def speeds(self, causes: tuple[str, ...]) -> Floats:
        """The factor on host time of each of `causes` from the profiled to the unprofiled speed."""
        return np.array([self.host_speeds.of(cause) for cause in causes], np.float64)

    def content(self, activity: Ints, calls: Ints, communicates: bool) -> Hashable:
        """Equal for changes that do the same to steps with these activities and calls, rows of the trace.

        `communicates` is whether the steps hold collectives.
        """
        speeds = self.host_speeds
        return (
            _digest(self.kernels, activity),
            _digest(self.merge, activity),
            _digest(self.no_wait, calls),
            frozenset((cause, factor) for cause, factor in self.host.items() if factor != 1),
            self.launches,
            self.communication if communicates else 1.0,
            self.overlap,
            (speeds.others, frozenset(speeds.by_cause.items())),
        )


def _digest(column: NDArray[Any] | Coded | None, rows: Ints) -> bytes | None:
    return None if column is None else hashlib.sha256(np.ascontiguousarray(column[rows]).data).digest()
