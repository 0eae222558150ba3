"""The most space that a capture takes on this machine, and where it goes: reported before any job runs."""

from collections.abc import Mapping
from pathlib import Path

from diagnose.probes.bundle.disk import file_system, free_bytes, in_memory
from diagnose.probes.limits.capture_size import MEMORY_PER_TEXT_WITH_SHAPES
from diagnose.probes.limits.room import DISK_SHARE, MEMORY_SHARE
from diagnose.probes.protocol import BUDGET_BYTES

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


def room(folder: Path) -> tuple[bool, str]:
    """Whether `folder` is suitable for traces, and a description of it."""
    free = free_bytes(folder)
    if in_memory(folder):
        return False, f"{folder} is memory ({file_system(folder)}): traces there take the job's; pass --out on a disk"
    least = DISK_SHARE * BUDGET_BYTES
    kind = file_system(folder)
    where = f"{folder}{f' ({kind})' if kind else ''}"
    if free is None:
        return False, f"room in {where} cannot be told"
    takes = f"a rank takes up to {BUDGET_BYTES / GIB:.2f} GiB of it for a while"
    return free >= least, f"{free / GIB:.1f} GiB free in {where}; {takes}"


def taken(said: Mapping[str, object], free_memory: int | None) -> tuple[bool, str]:
    """Whether a rank's capture of the whole budget fits this machine, and the memory, stall and disk that it takes."""
    memory = BUDGET_BYTES * MEMORY_PER_TEXT_WITH_SHAPES
    each = said.get(STALL_PER_BYTE)
    stall = "a stall that is not known without torch"
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
