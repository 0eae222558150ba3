"""Check what a capture can see on this machine.

Torch is queried in a process of its own: its import can fail in many ways.
"""

import contextlib
import ctypes
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from diagnose.capture.command import environment
from diagnose.commands.doctor.answer import Check
from diagnose.probes.bundle.disk import file_system, free_bytes, in_memory
from diagnose.probes.config import Config
from diagnose.probes.limits.capture_size import MEMORY_PER_TEXT_WITH_SHAPES
from diagnose.probes.limits.room import DISK_SHARE, MEMORY_SHARE, free_memory_bytes
from diagnose.probes.machine.network_ports import network_ports, peer_memory
from diagnose.probes.protocol import BUDGET_BYTES, NSIGHT
from diagnose.version import __version__

_PACKAGES = ("transformers", "accelerate", "liger-kernel", "nvtx")
_PATIENCE_S = 120
_DCGM = ("nv-hostengine", "dcgm-exporter")
GIB = 1 << 30
STALL_PER_BYTE = "stall_s_per_byte"
COMPRESSED = 0.1  # of the text, at least of every capture that was measured
# Run in the process that asks torch: seconds to stop and to export, for each byte of the text of small operators.
ASK_STALL = f"""
import os, tempfile, time
def stall():
    ones, recorder = torch.ones(8), profile(activities=[ProfilerActivity.CPU], record_shapes=True)
    recorder.start()
    for _ in range(4000):
        ones + 1
    began = time.perf_counter()
    recorder.stop()
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "trace.json")
        recorder.export_chrome_trace(text)
        return (time.perf_counter() - began) / os.path.getsize(text)
try:
    from torch.profiler import ProfilerActivity, profile
    said["{STALL_PER_BYTE}"] = stall()
except Exception:
    pass
"""
_ASK_TORCH = """
import json, sys, warnings
warnings.simplefilter("ignore")
said = {"hooked": any(type(f).__name__ == "_AfterImport" for f in sys.meta_path)}
try:
    import torch
    from torch.profiler import ProfilerActivity, profile, supported_activities
    said["torch"] = torch.__version__
    said["built_for"] = torch.version.cuda or torch.version.hip
    said["devices"] = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    said["activities"] = sorted(activity.name for activity in supported_activities())
    if said["devices"]:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            torch.ones(8, device="cuda").add_(1)
            torch.cuda.synchronize()
        said["kernels"] = sum(event.device_type.name == "CUDA" for event in profiler.events())
except BaseException as error:
    said["error"] = f"{type(error).__name__}: {error}"
{stall}
print("\\n" + json.dumps(said))
""".replace("{stall}", ASK_STALL)


def checks(folder: Path, env: Mapping[str, str]) -> Iterator[Check]:
    """All checks, for captures into `folder` in the environment `env`."""
    yield Check("diagnose", "ok", f"{__version__}, Python {platform.python_version()}, {sys.executable}")
    said = ask_torch(env)
    yield hook(said)
    yield torch_found(said)
    yield gpu_events(said)
    yield nvml()
    yield network(network_ports())
    yield nsight(env)
    yield dcgm(running())
    yield disk(folder)
    yield capture(said)
    yield blocking(env)
    yield reader()
    yield Check("versions", "ok", ", ".join(map(version, _PACKAGES)))


def ask_torch(env: Mapping[str, str]) -> dict[str, object]:
    """The answer of a Python process, hooked as by `diagnose run`, about torch; `error` if it gives none."""
    try:
        hooked = environment(env, Config(""), Path(os.devnull))
        command = [sys.executable, "-c", _ASK_TORCH]
        done = subprocess.run(command, env=hooked, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
        said = json.loads(done.stdout.splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return {"error": f"asking it failed: {type(error).__name__}"}
    return said if isinstance(said, dict) else {}


def hook(said: Mapping[str, object]) -> Check:
    """Whether our sitecustomize runs in a Python process of the job."""
    if said.get("hooked"):
        return Check("hook", "ok", "Python processes of a job are reached through PYTHONPATH and sitecustomize")
    if "hooked" in said:
        return Check("hook", "warn", "sitecustomize did not run: captures need `diagnose.probes.profile` in the script")
    return Check("hook", "unknown", str(said.get("error", "")))


def torch_found(said: Mapping[str, object]) -> Check:
    """Check which torch is installed, if any."""
    if "torch" not in said:
        return Check("torch", "warn", f"cannot be imported: {said.get('error')}")
    return Check("torch", "ok", f"{said['torch']}, built for {said.get('built_for') or 'CPU only'}")


def gpu_events(said: Mapping[str, object]) -> Check:
    """Whether the profiler of torch receives kernels (CUPTI, roctracer), shown by running one."""
    devices, name = said.get("devices"), "GPU events"
    if not devices or not isinstance(devices, list):
        return Check(name, "unknown", "no GPU is visible to torch: traces hold the host only")
    here = f"{len(devices)} x {devices[0]}"
    if "kernels" not in said:
        return Check(name, "warn", f"{here}: the profiler failed: {said.get('error')}")
    if not said["kernels"]:
        return Check(name, "warn", f"{here}: the profiler saw no kernel; is another tool attached to CUPTI?")
    return Check(name, "ok", f"{here}: the profiler sees kernels")


def nvml() -> Check:
    """Whether clocks and power can be read."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return Check("NVML", "unknown", "no NVIDIA driver here: no clocks, power or throttle reasons")
    if library.nvmlInit_v2() != 0:
        return Check("NVML", "warn", "the driver's library refuses to start: no clocks, power or throttle reasons")
    try:
        device, value = ctypes.c_void_p(), ctypes.c_uint()
        if library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) != 0:
            return Check("NVML", "warn", "no device may be opened: no clocks, power or throttle reasons")
        refused = [
            what
            for what, code in (
                ("clocks", library.nvmlDeviceGetClockInfo(device, 1, ctypes.byref(value))),
                ("power", library.nvmlDeviceGetPowerUsage(device, ctypes.byref(value))),
            )
            if code != 0
        ]
    finally:
        library.nvmlShutdown()
    if refused:
        return Check("NVML", "warn", f"not readable: {', '.join(refused)}")
    return Check("NVML", "ok", "clocks and power are readable")


def network(ports: Sequence[Mapping[str, Any]] | None) -> Check:
    """The ports whose rate is compared with what large messages reach between nodes, and what keeps NCCL off them."""
    name, shown = "network", ", ".join(map(_port, ports or ()))
    rdma = [port for port in ports or () if port["rdma"] and port["up"]]
    if not shown:
        return Check(name, "unknown", "no port is listed here: pass --network-gbs for jobs of several nodes")
    if not rdma:
        return Check(name, "ok", f"{shown}; no InfiniBand or RoCE port is up: NCCL uses sockets between nodes")
    if all(port["opens"] is False for port in rdma):
        says = "/dev/infiniband may not be opened, so NCCL uses sockets: pass the devices to the container"
        return Check(name, "warn", f"{shown}; {says}")
    memory = "is loaded" if peer_memory() else "is not loaded: NCCL has GPUDirect RDMA only through DMA-BUF"
    return Check(name, "ok", f"{shown}; nvidia-peermem {memory}")


def _port(port: Mapping[str, Any]) -> str:
    """In words, such as "mlx5_0:1 InfiniBand 100 Gbit/s (12.5 GB/s)"."""
    kind = "RoCE" if port["rdma"] and port["link"] == "Ethernet" else port["link"] or "of an unknown kind"
    gbit = port["gbit_per_s"]
    rate = f"{gbit:g} Gbit/s ({gbit / 8:g} GB/s)" if gbit else "of unknown rate"
    number = f":{port['port']}" if port["rdma"] else ""
    return f"{port['name']}{number} {kind} " + (rate if port["up"] else "down")


def nsight(env: Mapping[str, str]) -> Check:
    """Check whether Nsight Systems is in the process, which takes its only CUPTI subscription."""
    if env.get(NSIGHT):
        says = "this shell runs under nsys: GPU events go there; capture outside of it"
        return Check("Nsight", "warn", says)
    return Check("Nsight", "ok", "not under nsys")


def dcgm(processes: Iterable[str]) -> Check:
    """Check whether DCGM runs, whose profiling counters exclude other profilers on some GPUs."""
    engines = sorted(set(_DCGM) & set(processes))
    if engines:
        says = f"{', '.join(engines)} runs; if GPU events are missing: `dcgmi profmon --pause`, later `--resume`"
        return Check("DCGM", "warn", says)
    return Check("DCGM", "ok", "no host engine among the processes seen")


def running() -> Iterator[str]:
    """Names of the processes that /proc shows."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            yield path.read_text(encoding="utf-8", errors="replace").strip()


def disk(folder: Path) -> Check:
    """Check the room for traces in their default folder, and whether that is a disk."""
    if not folder.is_dir():
        return Check("disk", "warn", f"{folder}: no such folder")
    if not os.access(folder, os.W_OK):
        return Check("disk", "warn", f"{folder} is read-only: pass --out")
    good, says = room(folder)
    return Check("disk", "ok" if good else "warn", says)


def capture(said: Mapping[str, object]) -> Check:
    """Check the most that a capture takes on this machine."""
    fits, says = taken(said, free_memory_bytes())
    return Check("capture", "ok" if fits else "warn", says)


def blocking(env: Mapping[str, str]) -> Check:
    """Check for settings that distort measurements."""
    if env.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        return Check("launches", "warn", "CUDA_LAUNCH_BLOCKING is set: every launch waits for its kernel; unset it")
    return Check("launches", "ok", "asynchronous")


def reader() -> Check:
    """Check which reader is in use: both give the same result, the compiled one sooner."""
    from diagnose.trace.scanning import reader_in_use  # the loader takes longer to import than most checks

    if reader_in_use() == "compiled":
        return Check("reader", "ok", "compiled")
    return Check("reader", "ok", "in Python: traces take two to three times as long to load as with the compiled one")


def version(package: str) -> str:
    """Check the version of a package that a capture records, or can use."""
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


# The most space that a capture takes on this machine, and where it goes: reported before any job runs.


def room(folder: Path) -> tuple[bool, str]:
    """Whether `folder` is suitable for traces, and a description of it."""
    free = free_bytes(folder)
    if in_memory(folder):
        return False, f"{folder} is memory ({file_system(folder)}): traces there take the job's; pass --out on a disk"
    least = DISK_SHARE * BUDGET_BYTES
    kind = file_system(folder)
    where = f"{folder}{f' ({kind})' if kind else ''}"
    if free is None:
        return False, f"the room in {where} is unknown"
    takes = f"a rank takes up to {BUDGET_BYTES / GIB:.2f} GiB of it for a while"
    return free >= least, f"{free / GIB:.1f} GiB free in {where}; {takes}"


def taken(said: Mapping[str, object], free_memory: int | None) -> tuple[bool, str]:
    """Whether a rank's capture of the whole budget fits this machine, and the memory, stall and disk that it takes."""
    memory = BUDGET_BYTES * MEMORY_PER_TEXT_WITH_SHAPES
    each = said.get(STALL_PER_BYTE)
    stall = "a stall that only torch could measure"
    if isinstance(each, float) and each > 0:
        stall = f"{each * BUDGET_BYTES:.0f} s of stall at its end ({each * 1e6 * 1e3:.0f} ms for each MB)"
    says = (
        f"a rank takes at most {BUDGET_BYTES / 1e6:.0f} MB of text (--budget), with it {memory / GIB:.1f} GiB of memory"
        f" and {stall}; about {BUDGET_BYTES * COMPRESSED / 1e6:.0f} MB of it stay. A window that would take more is cut"
    )
    if free_memory is None:
        return True, says
    fits = memory * MEMORY_SHARE <= free_memory
    return fits, says if fits else f"{says}, here to a quarter of the {free_memory / GIB:.1f} GiB of free memory"
