"""What a recording leaves behind: steps of many small kernels before torch.profiler records and after it.

residue.py: a process for each way to end, in turns; the median step after the recording over that before it.
residue.py job: the job of one. TEARDOWN_CUPTI is read by Kineto as the recording stops.
"""

from __future__ import annotations

import json
import sys
import time
from statistics import median
from typing import Any

from kit import TINY, left_s, ran, tell, tried

ENDS = {"CUPTI stays": "0", "CUPTI detaches": "1"}
ROUNDS = 2
STEPS = 20 if TINY else 150
SETTLES_S = 0.2 if TINY else 1.5


def main() -> None:
    """Rounds of one process for each way to end, or the job of one."""
    if sys.argv[1:] == ["job"]:
        job()
        return
    found: dict[str, list[Any]] = {name: [] for name in ENDS}
    for _ in range(ROUNDS):
        for name, value in ENDS.items():
            if left_s() > 15:
                found[name].append(tried(one, value))
                print(name, found[name][-1], flush=True)
                tell(found)


def one(teardown: str) -> dict[str, Any]:
    """What one process says."""
    done = ran([sys.executable, __file__, "job"], 40, env={"TEARDOWN_CUPTI": teardown})
    if done["code"] != 0:
        raise RuntimeError(f"ended with {done['code']}: {done['err'][-300:]}")
    told: dict[str, Any] = json.loads(done["out"].splitlines()[-1])
    return told


def job() -> None:
    """Train, record, train, record once more, and train."""
    import torch

    place = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(24))).to(place)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    x = torch.randn(64, 256, device=place)

    def step() -> None:
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    timed(step, place)
    before, said = timed(step, place), {}
    for number in ("first", "second"):
        with torch.profiler.profile(record_shapes=True):
            for _ in range(3):
                step()
        timed(step, place, SETTLES_S)
        said[f"after the {number} / before"] = round(timed(step, place) / before, 3)
    print(json.dumps({"ms before": round(before, 3), **said}))


def timed(step: Any, place: str, seconds: float = 0.0) -> float:
    """Milliseconds of the median step, of at least so many seconds."""
    import torch

    times, since = [], time.perf_counter()
    while len(times) < STEPS or time.perf_counter() - since < seconds:
        began = time.perf_counter()
        step()
        if place == "cuda":
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - began))
    return median(times)


if __name__ == "__main__":
    main()
