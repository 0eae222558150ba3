"""Each path of the product that only runs with CUDA, by itself: what it gave, or how it failed."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from kit import DIAGNOSE, TINY, left_s, ran, tell, tried

GPU = torch.cuda.is_available()
PLACE = "cuda" if GPU else "cpu"
SIDE = 64 if TINY else 4096
FOUND: dict[str, Any] = {"gpu": GPU}
KINDS = ("kernel", "gpu_memcpy", "cuda_sync", "cuda_runtime", "cuda_driver", "gpu_user_annotation", "overhead")
BASE = f"""
import torch, time, gc
place = {PLACE!r}
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).to(place)
opt = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=place == "cuda", capturable=False)
x = torch.randn(64, 512, device=place)
def step():
    loss = model(x).square().mean(); loss.backward(); opt.step(); opt.zero_grad(set_to_none=True); return loss
"""
OOM = """
for _ in range(6): step()
if place == "cuda":
    torch.cuda.set_per_process_memory_fraction(0.05)
    keep = []
    try:
        while True: keep.append(torch.empty(1 << 28, device=place))
    except torch.OutOfMemoryError as error:
        print("oom:", str(error)[:200])
    del keep
for _ in range(40): step()
print("survived")
"""
WHOLE_GRAPH = """
s = torch.cuda.Stream(); s.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(s):
    for _ in range(4): step()
torch.cuda.current_stream().wait_stream(s)
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g): loss = step()
for _ in range(200): g.replay()
torch.cuda.synchronize(); print("replayed", float(loss.detach()))
"""
STREAMS = """
s = torch.cuda.Stream()
for _ in range(60):
    with torch.cuda.stream(s): y = x @ x.t()
    torch.cuda.current_stream().wait_stream(s); step()
"""


def main() -> None:
    """Each path, told as soon as it is known."""
    note("clock", clock)
    note("facts", facts)
    note("sampler", sampler)
    note("profiler", profiler)
    note("run: bare loop", job, BASE + "for _ in range(400): step()\n")
    note("run: OOM in the loop", job, BASE + OOM)
    note("run --memory", job, BASE + "for _ in range(60): step()\n", "--memory")
    if GPU:
        note("run: whole step in a CUDA graph", job, BASE.replace("capturable=False", "capturable=True") + WHOLE_GRAPH)
        note("run: two streams", job, BASE + STREAMS)
        note("run: uncached allocations", uncached)
    note("run --arm", job, BASE + "for _ in range(1500): step()\n", "--arm", "--every", "300")


def note(name: str, call: Callable[..., Any], *arguments: str) -> None:
    """What the path gave and how long it took."""
    since = time.monotonic()
    value = tried(call, *arguments)
    FOUND[name] = {"value": value, "s": round(time.monotonic() - since, 2)}
    bad = isinstance(value, dict) and "failed" in value
    print(f"{name}: {'FAILED ' + value['failed'] if bad else 'ok'}", flush=True)
    tell(FOUND)


def wait() -> None:
    """Until the device has nothing left to do."""
    if GPU:
        torch.cuda.synchronize()


def clock() -> dict[str, Any]:
    """Events against the host's clock, around work of known length."""
    from diagnose.probes.recording.clock import StepClock

    a = torch.randn(SIDE, SIDE, device=PLACE)
    steps, wall = StepClock(time.perf_counter_ns), []
    for _ in range(6):
        since = time.perf_counter_ns()
        for _ in range(20):
            a @ a
        wait()
        wall.append((time.perf_counter_ns() - since) / 1e6)
        steps.step_ended("control")
        steps.step_begins("control")
    return {"source": steps.source, "events_ms": [t / 1e6 for t in steps.times("control")], "wall_ms": wall}


def facts() -> dict[str, Any]:
    """What the record says of the device, of memory, of versions and of torch's settings."""
    from diagnose.probes.facts import machine, torch_settings

    if GPU:
        torch.cuda.init()
    told = {"device": machine.device, "memory": machine.memory, "settings": torch_settings.torch_settings}
    return {name: tried(call) for name, call in told.items()}


def sampler() -> dict[str, Any]:
    """A second of readings by the thread that the probe has, beside work."""
    from diagnose.probes.machine.sampling import MachineSampler

    if GPU:
        torch.cuda.init()
    readings, a = MachineSampler(interval_s=0.1), torch.randn(SIDE, SIDE, device=PLACE)
    readings.start()
    readings.window_begins()
    until = time.monotonic() + (0.4 if TINY else 1.5)
    while time.monotonic() < until:
        a @ a
        wait()
    readings.stop()
    return {"facts": readings.facts(), "why_no_gpu": readings.why_no_gpu, "why_none": readings.why_none}


def profiler() -> dict[str, Any]:
    """Kinds of events in a trace with the options of the probe: kernels, copies, synchronisations, launches."""
    from diagnose.probes.recording.recorder import _activities, _experimental

    options, extra = _experimental()
    x, host = torch.randn(256, 256, device=PLACE), torch.randn(1 << 20)
    with torch.profiler.profile(activities=_activities(), record_shapes=True, experimental_config=options) as prof:
        for _ in range(3):
            (x @ x).relu_()
            host.to(PLACE, non_blocking=True).sum().item()
            wait()
    with tempfile.TemporaryDirectory() as folder:
        prof.export_chrome_trace(f"{folder}/t.json")
        page = json.loads(Path(folder, "t.json").read_text(encoding="utf-8"))
    kinds: dict[str, int] = {}
    for event in page["traceEvents"]:
        if event.get("ph") == "X":
            kinds[event.get("cat", "?")] = kinds.get(event.get("cat", "?"), 0) + 1
    one = {kind: next((e for e in page["traceEvents"] if e.get("cat") == kind), None) for kind in KINDS}
    return {"options": {key: str(value) for key, value in extra.items()}, "kinds": kinds, "one_of_each": one}


def uncached() -> dict[str, Any]:
    """A loop without torch's caching allocator."""
    return job(BASE + "for _ in range(60): step()\n", env={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})


def job(code: str, *options: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    """A script under `diagnose run`: its exit code, what it printed, what was written."""
    folder = Path(tempfile.mkdtemp())
    (folder / "job.py").write_text(code)
    asked = ("--no-ledger", "--out", str(folder / "b"), "--json", str(folder / "d.json"), *options)
    words = [*DIAGNOSE, "run", *asked, "--", sys.executable, str(folder / "job.py")]
    done = ran(words, min(150 if TINY else 60, max(left_s(), 10)), env=env)
    told: dict[str, Any] = {"code": done["code"], "out": done["out"][-1200:], "err": done["err"][-1200:]}
    told["files"] = sorted(path.name for path in folder.glob("b*/*"))
    if (folder / "d.json").is_file():
        told |= diagnosed(json.loads((folder / "d.json").read_text(encoding="utf-8")))
    for snapshot in folder.glob("b*/memory-rank0*.pickle"):
        read = ran([*DIAGNOSE, "memory", str(snapshot)], 30)
        told[f"memory {snapshot.name}"] = {
            "bytes": snapshot.stat().st_size,
            "code": read["code"],
            "out": read["out"][:3000],
        }
    return told


def diagnosed(page: dict[str, Any]) -> dict[str, Any]:
    """Class, advice and steps of a diagnosis; nothing of the answer of an armed run."""
    if "verdict" not in page:
        return {}
    return {
        "class": page["verdict"]["class"],
        "next": page["next"].get("rule"),
        "findings": [finding["rule"] for finding in page["findings"]],
        "steps": page["steps"]["count"],
        "source": page["steps"]["source"],
    }


if __name__ == "__main__":
    main()
