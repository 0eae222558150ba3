"""Measurements made by hand."""

from typing import Any

import msgspec

from diagnose.commands.data.measured import LoadingMeasurement

MS = 1_000_000


def spent(samples: int, times_ms: list[float], busy: float = 1.0, **more: Any) -> dict[str, Any]:
    """A stage whose batches took these times, of which a share was computed."""
    wall_ns = int(sum(times_ms) * MS)
    cpu_ns = int(busy * wall_ns)
    times = [int(each * MS) for each in times_ms]
    stage = {"samples": samples, "times_ns": times, "wall_ns": wall_ns, "cpu_ns": cpu_ns, "process_cpu_ns": cpu_ns}
    return stage | {"queued_ns": 0, "sample_bytes": 1000.0} | more


def rounds(workers: int, batches: int, ms: float, batch_size: int = 10) -> dict[str, Any]:
    """Steady batches of so many workers."""
    return {"workers": workers, "batches": batches, "wall_ns": int(ms * MS), "batch_size": batch_size, "first_s": 0.5}


def made(**parts: Any) -> LoadingMeasurement:
    """Batches of ten samples that take 100 ms to load and 1 ms to collate in process, on eight cores; with `parts`."""
    nothing = {"because": "not tried"}
    stacks = {"samples": 0, "work": {}, "functions": []}
    content = {
        "version": 1,
        "loop": "the script's loop",
        "rank": 0,
        "world_size": 1,
        "cores": {"usable": 8, "quota": None, "shared": 8, "local_ranks": 1},
        "loader": {"num_workers": 0},
        "batch_size": 10,
        "dataset": {"class": "Texts", "is_iterable": False, "collated": True, "samples": 100_000},
        "first_s": 0.2,
        "stopped": "",
        "fetch": spent(50, [100.0] * 5),
        "collate": spent(50, [1.0] * 5),
        "loading": {},
        "stacks": {"fetch": stacks, "collate": stacks},
        "storage": nothing,
        "lock": nothing,
        "workers": [rounds(1, 10, 1000.0)],
        "hand_over": rounds(1, 1000, 1000.0),
        "pin": nothing,
        "copy": nothing,
        "lengths": {"samples": [], "batches": [], "because": "no tokens"},
        "restarts": 0,
        "seconds": 30.0,
    }
    return msgspec.convert(content | parts, LoadingMeasurement)
