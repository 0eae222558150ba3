"""Jobs whose whole step is a CUDA graph, captured in every phase of the probe's window: the job has to survive each.

graphs.py FOLDER: a job for each number of steps before the capture. graphs.py job STEPS: the job.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from kit import DIAGNOSE, TINY, diagnosis_told, left_s, ran, tell, tried

PHASES = (3, 15, 12, 14, 17, 18, 19, 20, 13, 11, 16)  # steps before the capture
LONGEST_S = 90 if TINY else 30
TOLD = ("class", "next", "step_ms")


def main() -> None:
    """Each phase in a process of its own, or the job of one."""
    if sys.argv[1] == "job":
        job(int(sys.argv[2]))
        return
    folder, found = Path(sys.argv[1]), {}
    folder.mkdir(parents=True, exist_ok=True)
    for before in PHASES[:2] if TINY else PHASES:
        if left_s() < 12:
            found[before] = {"survived": None, "told": {}, "not run": "no time left"}
        else:
            found[before] = one(folder, before)
            print(before, found[before]["survived"], found[before]["code"], flush=True)
        tell(found)


def one(folder: Path, before: int) -> dict[str, Any]:
    """The job under `diagnose run`."""
    page = folder / f"{before}.json"
    asked = ("run", "--no-ledger", "--out", str(folder / str(before)), "--json", str(page))
    words = [*DIAGNOSE, *asked, "--", sys.executable, __file__, "job", str(before)]
    done = ran(words, max(min(left_s(), LONGEST_S), 10))
    told = tried(diagnosis_told, page)
    late = {} if done["code"] is not None else {"not run": f"stopped after {done['s']:.0f} s"}
    return late | {
        "survived": "SURVIVED" in done["out"] if done["code"] is not None else None,
        "code": done["code"],
        "s": done["s"],
        "err": done["err"][-700:],
        "told": {key: told[key] for key in TOLD if key in told},
    }


def job(before: int) -> None:
    """Steps, a graph of one where there is a GPU, replays, and steps again."""
    import torch

    on_gpu = torch.cuda.is_available()
    place = "cuda" if on_gpu else "cpu"
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).to(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=on_gpu)
    x = torch.randn(64, 512, device=place)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if not on_gpu:
        for _ in range(before + 60):
            step()
        print("SURVIVED")
        return
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(before):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    for _ in range(300):
        graph.replay()
    for _ in range(30):
        step()
    torch.cuda.synchronize()
    print("SURVIVED", float(loss))


if __name__ == "__main__":
    main()
