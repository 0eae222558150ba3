"""What the summaries of the calls hold, in one place: parts with their call, and the machine."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

INSTALLED = ("torch", "transformers", "accelerate", "liger-kernel", "triton", "python")
VERSIONS = ("torch", "transformers", "accelerate", "liger_kernel", "triton", "python")
Found = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """One summary: the number of the call, and what its parts found."""

    number: str
    commit: str
    date: str
    tiny: bool
    parts: Sequence[Found]
    found: Found
    failed: Mapping[str, str]


def read(path: Path) -> Call:
    """The summary in that file."""
    page = json.loads(path.read_text(encoding="utf-8"))
    return Call(
        str(page["call"]), page["commit"], page["at"][:10], page["tiny"], page["parts"], page["found"], page["failed"]
    )


def holding(calls: Sequence[Call], *parts: str) -> list[Call]:
    """The calls that found something in one of the parts."""
    return [call for call in calls if any(part in call.found for part in parts)]


def merged(calls: Sequence[Call], *names: str) -> Found:
    """The rows of parts that share a table: of each the last that ran, if one did."""
    rows: dict[str, Any] = {}
    told = [call.found[name].get("rows", {}) for name in names for call in calls if name in call.found]
    for name, row in (item for each in told for item in each.items()):
        if name not in rows or "not run" not in row:
            rows[name] = row
    return rows


def part(calls: Sequence[Call], name: str) -> Any:
    """What the last call that ran the part found; nothing where none did."""
    return next((call.found[name] for call in reversed(calls) if name in call.found), {})


def records(calls: Sequence[Call]) -> Iterator[Found]:
    """The capture records that summaries quote."""
    for call in calls:
        for name in ("captures", "captures-again", "captures-more"):
            for told in call.found.get(name, {}).values():
                record = told.get("record") if isinstance(told, dict) else None
                if record and record.get("device"):
                    yield record


def card(calls: Sequence[Call]) -> str:
    """The name of the card that all calls saw; each that some saw where they differ."""
    names = {record["device"]["name"] for record in records(calls)}
    names |= {call.found["ladder"]["device"]["name"] for call in holding(calls, "ladder")}
    names |= {call.found["peaks"]["device"] for call in holding(calls, "peaks")}
    return ", ".join(sorted(names)) or "CPU"


def machine(calls: Sequence[Call]) -> str:
    """Card, driver and versions in a sentence."""
    record = next(records(calls), None)
    if record is None:
        return _looked_at(part(calls, "environment")) or f"On {card(calls)}."
    versions = record["versions"]
    known = [f"{name.replace('_', '-')} {versions[name]}" for name in VERSIONS if versions.get(name)]
    memory = record["device"]["total_memory_bytes"] / 2**30
    driver = f"driver {versions['driver']} (CUDA {versions['driver_cuda']})"
    return f"One {card(calls)} ({memory:.1f} GiB), {driver};\n{', '.join(known)}."


def _looked_at(environment: Found) -> str:
    """The same from a look at the machine, "" without a GPU: no capture of a call holds its record."""
    torch, packages = environment.get("torch") or {}, environment.get("packages") or {}
    card = (torch.get("properties") or {}).get("name")
    if not card:
        return ""
    driver = re.search(r"Driver Version\s*: (\S+)\s*CUDA Version\s*: (\S+)", environment.get("smi") or "")
    with_driver = f", driver {driver[1]} (CUDA {driver[2]})" if driver else ""
    packages |= {"python": environment.get("python")}
    known = [f"{name} {packages[name]}" for name in INSTALLED if isinstance(packages.get(name), str)]
    return f"One {card}{with_driver};\n{', '.join(known)}."


def origin(calls: Sequence[Call], of: Sequence[Call]) -> str:
    """Where figures come from: machine, commit, calls and date."""
    commits = ", ".join(sorted({f"`{call.commit}`" for call in of}))
    numbers = ", ".join(sorted({call.number for call in of}))
    dates = ", ".join(sorted({call.date for call in of}))
    word = "calls" if "," in numbers else "call"
    return f"{machine(calls)}\nCommit {commits}, {word} {numbers} of `benchmarks/gpu/call.sh`, {dates}."
