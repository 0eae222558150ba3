"""How long `diagnose memory` takes for a snapshot of so many megabytes, and how much memory.

    python benchmarks/snapshots.py                            # 50 MB
    python benchmarks/snapshots.py --mb 200 1000 --write      # written to benchmarks/reports/, dated

The snapshot is written as torch's `_dump_snapshot` writes one (protocol 4, every text once, every frame once), of a
job that allocates and frees: each allocation and each request to free has a stack of 24 frames in a list of its own,
and what completes it asks for that list again. It is written piece by piece, so that making it takes no memory.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

REPORTS = Path(__file__).parent / "reports"
MIB = 1 << 20
FRAMES, STACKS, DEEP = 4000, 3000, 24
ADDRESSES = 3_000
BATCH = 1000  # entries that pickle adds to a list at a time
KEYS = ("action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames")
TEXTS = ("filename", "line", "name", *KEYS, "alloc", "free_requested", "free_completed", "segments", "device_traces")


class Written:
    """A pickle of protocol 4 as it grows; values are remembered under numbers in their order."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._remembered = 0
        self._texts: dict[str, int] = {}

    def put(self, code: bytes) -> None:
        """Write opcodes that remember nothing."""
        self._file.write(code)

    def remembered(self, code: bytes) -> int:
        """Write the opcodes of a value that is remembered; its number."""
        self._file.write(code + b"\x94")
        self._remembered += 1
        return self._remembered - 1

    def text(self, text: str) -> bytes:
        """Write a text that comes for the first time; the opcode that asks for it."""
        if text not in self._texts:
            encoded = text.encode()
            self._texts[text] = self.remembered(b"\x8c" + bytes([len(encoded)]) + encoded)
            return b""
        return fetched(self._texts[text])


def fetched(number: int) -> bytes:
    """The opcode that asks for a remembered value."""
    return b"h" + bytes([number]) if number < 256 else b"j" + number.to_bytes(4, "little")


def whole(number: int) -> bytes:
    """A whole number as pickle writes it."""
    for code, size in ((b"K", 1), (b"M", 2), (b"J", 4)):
        if number < 1 << (8 * size - (size == 4)):
            return code + number.to_bytes(size, "little")
    size = number.bit_length() // 8 + 1
    return b"\x8a" + bytes([size]) + number.to_bytes(size, "little")


def write_snapshot(path: Path, size_bytes: int) -> int:
    """Write a snapshot of about `size_bytes`; the number of its actions."""
    drawn = random.Random(7)
    with path.open("wb", buffering=MIB) as file:
        pickle = Written(file)
        pickle.put(b"\x80\x04")
        pickle.remembered(b"}")
        pickle.put(b"(")
        pickle.text("frames of all stacks")
        pickle.remembered(b"]")
        pickle.put(b"(")
        for text in TEXTS:
            pickle.text(text)
        frames = [_frame(pickle, i) for i in range(FRAMES)]
        pickle.put(b"e")
        pickle.put(pickle.text("segments"))
        pickle.remembered(b"]")
        pickle.put(pickle.text("device_traces"))
        pickle.remembered(b"]")
        pickle.remembered(b"]")
        pickle.put(b"(")
        stacks = [b"".join(drawn.choices(frames, k=DEEP)) for _ in range(STACKS)]
        actions = 0
        for code in _actions(pickle, stacks, drawn):
            actions += 1
            pickle.put(code if actions % BATCH else code + b"e(")
            if file.tell() >= size_bytes:
                break
        pickle.put(b"eau.")
    return actions


def _frame(pickle: Written, number: int) -> bytes:
    asked = pickle.remembered(b"}")
    pickle.put(b"(" + pickle.text("filename"))
    pickle.put(pickle.text(f"/home/me/src/module_{number % 200}.py"))
    pickle.put(pickle.text("line") + whole(number) + pickle.text("name"))
    pickle.put(pickle.text(f"function_{number % 1500}") + b"u")
    return fetched(asked)


def _actions(pickle: Written, stacks: list[bytes], drawn: random.Random) -> Iterator[bytes]:
    """Each allocation at an address that is held frees it first, by a request and its completion."""
    key = {name: pickle.text(name) for name in TEXTS}
    held: dict[int, int] = {}
    time_us = 1_795_000_000_000_000

    def begin(action: str, address: int, size: int) -> None:
        nonlocal time_us
        time_us += 3
        pickle.remembered(b"}")
        pickle.put(b"(" + key["action"] + key[action] + key["addr"] + whole(address) + key["size"] + whole(size))
        pickle.put(key["stream"] + b"K\x00" + key["time_us"] + whole(time_us))
        pickle.put(key["compile_context"] + b"N" + key["user_metadata"] + b"N" + key["frames"])

    def own_stack() -> int:
        number = pickle.remembered(b"]")
        pickle.put(b"(" + drawn.choice(stacks) + b"e")
        return number

    while True:
        address = 0x7F0000000000 + 512 * drawn.randrange(ADDRESSES)
        if address in held:
            begin("free_requested", address, held[address])
            stack = own_stack()
            yield b"u"
            begin("free_completed", address, held[address])
            pickle.put(fetched(stack))
            yield b"u"
        held[address] = 512 * drawn.randrange(1, 60_000)
        begin("alloc", address, held[address])
        own_stack()
        yield b"u"


def asked(path: Path) -> tuple[float, float, int]:
    """Seconds of processor time and peak memory in MiB of `diagnose memory`, and the actions that it counts."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", _MEASURED, str(path)], capture_output=True, text=True, check=True)
    told = json.loads(done.stdout.splitlines()[-1])
    print(f"{time.perf_counter() - began:.0f} s of wall time", file=sys.stderr)
    return told["seconds"], told["peak_kib"] / 1024, told["actions"]


_MEASURED = """
import json, resource, sys
from pathlib import Path
from diagnose.commands.memory.judging import judged
from diagnose.commands.memory.snapshot import read
before = resource.getrusage(resource.RUSAGE_SELF)
answer = judged(read(Path(sys.argv[1])))
after = resource.getrusage(resource.RUSAGE_SELF)
seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
actions = sum(device.actions for device in answer.devices)
print(json.dumps({"seconds": seconds, "peak_kib": after.ru_maxrss, "actions": actions}))
"""


def main() -> None:
    """Make, read and measure one snapshot after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, nargs="+", default=[50], help="sizes of the snapshots, in millions of bytes")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/reports/, dated")
    options = parser.parse_args()
    rows = ["| snapshot | actions | processor time | peak memory |", "|---|---|---|---|"]
    for size in options.mb:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "snapshot.pickle"
            written = write_snapshot(path, size * 1_000_000)
            seconds, peak_mib, actions = asked(path)
        if actions != written:
            raise SystemExit(f"{actions:,} actions were read of {written:,}")
        rows.append(f"| {size:,} MB | {actions:,} | {seconds:.0f} s | {peak_mib:.0f} MiB |")
    print("\n".join(rows))
    if options.write:
        day = datetime.now(UTC).date()
        sizes = " ".join(str(size) for size in options.mb)
        head = f"# Reading memory snapshots, {day}\n\n`python benchmarks/snapshots.py --mb {sizes}`"
        about = f"on {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
        (REPORTS / f"snapshots-{day}.md").write_text(f"{head} {about}\n\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
