"""Hold the goodput of `diagnose run` against a stopwatch inside the job: `python benchmarks/goodput.py`.

Each job is a loop that spends its time on one thing and times every part of itself. A part may differ by 2 % of the
wall time. The stopwatch sees what the probe does inside a step as a part of the step, so both count as steps here, with
what is compiled there. Ends with 1 if a part differs by more.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

WITHIN = 0.02
KINDS = ("steps", "waiting", "evaluation", "saving", "starting", "idle")
COMPARED = {
    "steps": ("productive", "logging", "compiling", "capturing"),
    "waiting": ("waiting for data",),
    "evaluation": ("evaluation",),
    "saving": ("saving",),
    "starting": ("starting",),
    "idle": ("idle",),
}
JOB = """
import contextlib, json, sys, time
began, kind, spent = time.perf_counter(), sys.argv[1], {}
@contextlib.contextmanager
def stopwatch(part):
    at = time.perf_counter()
    yield
    spent[part] = spent.get(part, 0.0) + time.perf_counter() - at
import torch
class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 200
    def __getitem__(self, at):
        time.sleep(0.004 if kind == "waiting" else 0.001)
        return torch.randn(64), torch.randn(1)
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(4)], torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters())
train, held_out = (torch.utils.data.DataLoader(Rows(), batch_size=8) for _ in range(2))
weights = {"model": model.state_dict(), "more": torch.zeros(20_000_000)}
time.sleep(8 if kind == "starting" else 0)
spent["starting"] = time.perf_counter() - began
end = time.perf_counter() + 20
while time.perf_counter() < end:
    with stopwatch("waiting"):
        batches = iter(train)
    while True:
        with stopwatch("waiting"):
            batch = next(batches, None)
        if batch is None:
            break
        with stopwatch("steps"):
            for _ in range(20):
                (model(batch[0]) - batch[1]).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    if kind == "evaluation":
        model.eval()
        with stopwatch("evaluation"):
            for rows, _ in held_out:
                with torch.no_grad():
                    model(rows)
        model.train()
    if kind == "saving":
        with stopwatch("saving"):
            torch.save(weights, "weights.pt")
with stopwatch("idle"):
    time.sleep(6 if kind == "idle" else 0)
spent["wall"] = time.perf_counter() - began
with open("stopwatch.json", "w") as file:
    json.dump(spent, file)
"""


def run(kind: str, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """The seconds by the stopwatch and by `diagnose run`, with the wall time of each."""
    (folder / "job.py").write_text(JOB)
    options = ["--no-ledger", "--no-report", "--json", "report.json"]
    command = [sys.executable, "-m", "diagnose", "run", *options, "--", sys.executable, "job.py", kind]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    goodput = json.loads((folder / "report.json").read_text())["goodput"]
    parts = {part["what"]: part["time_s"] for part in goodput["parts"]}
    told = {name: sum(parts[part] for part in of) for name, of in COMPARED.items()}
    return json.loads((folder / "stopwatch.json").read_text()), told | {"wall": goodput["wall_s"]}


def main() -> int:
    """Run all jobs and print how far each part is off, in % of the wall time."""
    worst = 0.0
    print(f"{'job':12}{'wall':>8}  " + "".join(f"{name:>12}" for name in COMPARED))
    for kind in KINDS:
        with tempfile.TemporaryDirectory() as folder:
            watched, told = run(kind, Path(folder))
        off = {name: (told[name] - watched.get(name, 0.0)) / told["wall"] for name in COMPARED}
        worst = max(worst, *map(abs, off.values()))
        print(f"{kind:12}{told['wall']:7.1f}s  " + "".join(f"{100 * share:+11.2f}%" for share in off.values()))
    return int(worst > WITHIN)


if __name__ == "__main__":
    sys.exit(main())
