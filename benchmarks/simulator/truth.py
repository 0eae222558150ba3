"""What a simulated folder's analysis should find."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NAME = "truth.json"


@dataclass(frozen=True)
class Late:
    """A rank to be named: `cause` is a `diagnose.diagnosis.LatenessCause`, `kind` the fault behind it."""

    rank: int
    cause: str
    kind: str
    size: float
    since_step: int


@dataclass(frozen=True)
class Truth:
    """The known answer; what the fault costs is the difference from the same job without it.

    Attributes:
        job: the parameters.
        late: the ranks to be named; empty for a healthy job, rotating lateness, and a slow link.
        slow_links: the ranks of each slow link.
        late_stages: the ranks of each stage of a pipeline that is to be named.
        gains: how many times as fast the job is, by the cure, simulated: "without faults" runs the job without them,
            varying work shared evenly; "equal stages", where one is late, scales the kernels of a pipeline's
            stages to take equally long.
        steps: number by which ProfilerStep marks each step.
        waiting_ms: for each step, what all ranks together wait longer inside collectives because of the fault.
        slowdown_ms: for each step, by how much the fault prolongs it, mean over ranks.
        step_ms: for each step its duration on the host, mean over ranks.
        hosts: host name of each rank.
        offset_ns: clock minus true clock at the beginning, for each rank; equal on a host.
        drift_ppm: by how much each rank's clock runs fast.
        missing: ranks without a trace.
    """

    job: dict[str, Any]
    late: tuple[Late, ...]
    slow_links: tuple[tuple[int, ...], ...]
    late_stages: tuple[tuple[int, ...], ...]
    gains: dict[str, float]
    steps: tuple[int, ...]
    waiting_ms: tuple[float, ...]
    slowdown_ms: tuple[float, ...]
    step_ms: tuple[float, ...]
    hosts: tuple[str, ...]
    offset_ns: tuple[int, ...]
    drift_ppm: tuple[float, ...]
    missing: tuple[int, ...]

    def write(self, folder: Path) -> None:
        """Write it into a folder of traces, which `diagnose` analyses without it: it holds no events."""
        (folder / NAME).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read_truth(folder: Path) -> Truth:
    """The truth of a folder that `Simulated.write` has written."""
    stated = json.loads((folder / NAME).read_text(encoding="utf-8"))
    late = tuple(Late(**entry) for entry in stated.pop("late"))
    links, stages = (tuple(tuple(ranks) for ranks in stated.pop(key)) for key in ("slow_links", "late_stages"))
    job, gains = stated.pop("job"), stated.pop("gains")
    rest = {key: tuple(value) for key, value in stated.items()}
    return Truth(job=job, late=late, slow_links=links, late_stages=stages, gains=gains, **rest)
