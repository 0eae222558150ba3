"""What the probe costs: the same job alone, under `diagnose run` behind its window, and armed, in turns.

probe_cost.py WORK: small steps (launches count) and larger ones; the mean step of each run, and ratios of neighbours.
probe_cost.py job WIDTH SECONDS: the job; the last seconds alone are timed.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from kit import DIAGNOSE, TINY, left_s, ran, tell

SIZES = {"small steps": 32} if TINY else {"small steps": 256, "larger steps": 2048}
SECONDS = 1.5 if TINY else 4.0
ROUNDS = 2
RUN = ("run", "--no-report", "--no-ledger")
ALONE, BEHIND, ARMED = "alone", "behind the window", "armed"


def main() -> None:
    """Rounds of three processes, or the job of one."""
    if sys.argv[1] == "job":
        job(int(sys.argv[2]), float(sys.argv[3]))
        return
    work, found = Path(sys.argv[1]) / "overhead", {}
    for size, width in SIZES.items():
        rounds: list[dict[str, tuple[float, float]]] = []
        while len(rounds) < ROUNDS and (not rounds or left_s() > 3 * (SECONDS * 2 + 6)):
            rounds.append({name: mean(words) for name, words in forms(work / f"{width}-{len(rounds)}", width).items()})
            found[size] = compared(rounds)
            tell(found)


def forms(stem: Path, width: int) -> dict[str, list[str]]:
    """The commands of a round."""
    plain = [sys.executable, __file__, "job", str(width), str(SECONDS)]
    return {
        ALONE: plain,
        BEHIND: [*DIAGNOSE, *RUN, "--out", str(stem), "--", *plain],
        ARMED: [*DIAGNOSE, *RUN, "--arm", "--out", f"{stem}-armed", "--", *plain],
    }


def compared(rounds: list[dict[str, tuple[float, float]]]) -> dict[str, Any]:
    """The rounds, and the medians of their ratios."""
    return {
        "rounds": rounds,
        "behind the window / alone": round(median(each[BEHIND][0] / each[ALONE][0] for each in rounds), 4),
        "armed / alone": round(median(each[ARMED][0] / each[ALONE][0] for each in rounds), 4),
        "added by the run, s": round(median(each[BEHIND][1] - each[ALONE][1] for each in rounds), 2),
    }


def mean(words: list[str]) -> tuple[float, float]:
    """Milliseconds of the mean step, and seconds of the process."""
    done = ran(words, 60)
    told = next((line for line in done["out"].splitlines() if line.startswith("MEAN")), None)
    if told is None:
        raise RuntimeError(done["err"][-300:])
    return float(told.split()[1]), done["s"]


def job(width: int, seconds: float) -> None:
    """Train; the window and the samples of the probe are over before the steps that are timed."""
    import torch

    place = "cuda" if torch.cuda.is_available() else "cpu"
    model = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(24))).to(place)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(4096, width)), batch_size=256)
    began, since, steps = time.perf_counter(), 0.0, 0
    while True:
        for (batch,) in loader:
            model(batch.to(place)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            steps += 1
            now = time.perf_counter()
            if not since and now - began > seconds * 1.2 and steps > 60:
                since, steps = settled(place), 0
            elif since and now - since > seconds * 0.6:
                print(f"MEAN {1e3 * (settled(place) - since) / steps:.6f} {steps}", flush=True)
                return


def settled(place: str) -> float:
    """The time at which the device has nothing left to do."""
    import torch

    if place == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
