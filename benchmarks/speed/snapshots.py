"""How long `diagnose memory` takes for a snapshot of so many megabytes, and how much memory.

    python -m benchmarks.speed.snapshots                       # 50 MB: half a minute
    python -m benchmarks.speed.snapshots --mb 200,1000 --write

The snapshot is pickled as torch's `_dump_snapshot` does (protocol 4, every text once, every frame once), of a job that
allocates and frees: each allocation and each request to free has a stack of 24 frames in a list of its own, which what
completes it shares. Making it takes several times its size in memory.
"""

import json
import pickle
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from measuring import cost_of
from reporting import numbers, page, parser, publish, table

FRAMES, STACKS, DEEP = 4000, 3000, 24
ADDRESSES = 3_000
BYTES_OF_AN_ACTION = 138  # in the pickle, the stacks shared out


def actions() -> Iterator[dict[str, Any]]:
    """Each allocation at an address that is held frees it first, by a request and its completion."""
    drawn = random.Random(7)
    frames = [
        {"filename": f"/home/me/src/module_{at % 200}.py", "line": at, "name": f"function_{at % 1500}"}
        for at in range(FRAMES)
    ]
    stacks = [drawn.choices(frames, k=DEEP) for _ in range(STACKS)]
    held: dict[int, int] = {}
    time_us = 1_795_000_000_000_000

    def action(what: str, address: int, stack: list[Any]) -> dict[str, Any]:
        nonlocal time_us
        time_us += 3
        return {
            "action": what, "addr": address, "size": held[address], "stream": 0, "time_us": time_us,
            "compile_context": None, "user_metadata": None, "frames": stack,
        }  # fmt: skip

    while True:
        address = 0x7F0000000000 + 512 * drawn.randrange(ADDRESSES)
        if address in held:
            stack = [*drawn.choice(stacks)]
            yield action("free_requested", address, stack)
            yield action("free_completed", address, stack)
        held[address] = 512 * drawn.randrange(1, 60_000)
        yield action("alloc", address, [*drawn.choice(stacks)])


def write_snapshot(path: Path, size_bytes: int) -> int:
    """Write a snapshot of about `size_bytes`; the number of its actions."""
    endless = actions()
    trace = [next(endless) for _ in range(size_bytes // BYTES_OF_AN_ACTION)]
    with path.open("wb") as file:
        pickle.dump({"segments": [], "device_traces": [trace]}, file, protocol=4)
    return len(trace)


def row(megabytes: int) -> list[str]:
    """A snapshot of so many megabytes: its actions, and what reading and judging it takes."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as answer:
        path = Path(folder) / "snapshot.pickle"
        written = write_snapshot(path, megabytes * 1_000_000)
        cost = cost_of("memory", str(path), "--json", answer=answer)
        answer.seek(0)
        read = sum(device["actions"] for device in json.load(answer)["devices"])
        size_mb = path.stat().st_size / 1e6
    if read != written:
        raise SystemExit(f"{read:,} actions were read of {written:,}")
    return [f"{size_mb:,.0f} MB", f"{read:,}", f"{cost.cpu_s:.0f} s", f"{cost.peak_bytes / 2**20:.0f} MiB"]


def main() -> None:
    """Make, read and measure one snapshot after the other."""
    options = parser(__doc__)
    options.add_argument("--mb", type=numbers, default=[50], metavar="MB,...", help="sizes in millions of bytes")
    chosen = options.parse_args()
    rows = table(("snapshot", "actions", "processor time", "peak memory"), map(row, chosen.mb))
    publish(page("Reading memory snapshots", "A process for each snapshot.", rows), chosen.write, "snapshots")


if __name__ == "__main__":
    main()
