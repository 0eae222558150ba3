"""Dumps in the format of torch's flight recorder, made by hand: what each rank called, and how far it got."""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from diagnose.commands.hang.answer import Hang
from diagnose.commands.hang.judging import judged
from diagnose.commands.hang.reading import found_in

TORCH = "/opt/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
DEFAULT = ("0", "default_pg")
LAST = "scheduled"


@dataclass(frozen=True)
class Made:
    """A call as a rank made it, at a line of train.py."""

    op: str = "all_reduce"
    line: int = 10
    size: tuple[int, ...] = (4, 3)
    kind: str = "Float"
    group: tuple[str, str] = DEFAULT
    state: str = "completed"
    retired: bool | None = None
    at_ns: int = 0


def steps(count: int, *round_: Made) -> list[Made]:
    """So many rounds of a loop."""
    return [made for _ in range(count) for made in round_]


def waiting(made: Made, state: str = LAST) -> Made:
    """The same call, which has not ended."""
    return replace(made, state=state)


def dump(
    calls: Sequence[Made],
    groups: Mapping[tuple[str, str], Sequence[int]],
    *,
    backend: str = "nccl",
    version: str = "2.10",
    lost: int = 0,
    stacks: bool = True,
) -> dict[str, Any]:
    """What a rank leaves that made these calls, in this order."""
    numbers: dict[tuple[str, str], int] = {}
    entries = []
    for i, made in enumerate(calls):
        is_message = made.op.startswith(("send", "recv"))
        numbers[made.group] = numbers.get(made.group, 0) + (not is_message)
        if i >= lost:
            entries.append(_entry(i, made, numbers[made.group], backend, stacks))
    config = {name: {"name": name, "desc": label, "ranks": str(list(ranks))} for (name, label), ranks in groups.items()}
    status = {str(i): {"last_enqueued_collective": number} for i, number in enumerate(numbers.values())}
    return {"version": version, "entries": entries, "pg_config": config, "pg_status": status}


def _entry(at: int, made: Made, number: int, backend: str, stacks: bool) -> dict[str, Any]:
    sizes = [] if made.op == "barrier" else [list(made.size)]
    kinds = [] if made.op == "barrier" else [made.kind]
    frames = [
        {"name": made.op.split(" ")[0], "filename": TORCH, "line": 3245},
        {"name": "train", "filename": "/home/me/train.py", "line": made.line},
        {"name": "<module>", "filename": "/home/me/train.py", "line": 99},
    ]
    ended = made.state == "completed"
    return {
        "record_id": at,
        "pg_id": int(made.group[0]) if made.group[0].isdecimal() else 0,
        "process_group": made.group,
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": at + 1,
        "profiling_name": f"{backend}:{made.op}",
        "time_created_ns": 1_795_000_000_000_000_000 + (made.at_ns or at * 1_000_000),
        "input_sizes": sizes,
        "input_dtypes": kinds,
        "output_sizes": sizes,
        "output_dtypes": kinds,
        "state": made.state,
        "time_discovered_started_ns": 1 if ended or made.state == "started" else None,
        "time_discovered_completed_ns": 2 if ended else None,
        "retired": ended if made.retired is None else made.retired,
        "timeout_ms": 600_000,
        "is_p2p": made.op.startswith(("send", "recv")),
        **({"frames": frames} if stacks else {}),
    }


def job(
    *ranks: Sequence[Made], groups: Mapping[tuple[str, str], Sequence[int]] | None = None, **how: Any
) -> dict[int, dict[str, Any]]:
    """The dumps of all ranks; without `groups` there is the default one alone."""
    known = {DEFAULT: range(len(ranks))} | dict(groups or {})
    return {
        rank: dump(calls, {name: of for name, of in known.items() if rank in of}, **how)
        for rank, calls in enumerate(ranks)
    }


def written(folder: Path, dumps: Mapping[int, Any], as_json: bool = False) -> Path:
    """The folder, with one file for each rank."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, content in dumps.items():
        if as_json:
            (folder / f"rank_{rank}.json").write_text(json.dumps(content))
        else:
            (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    return folder


def answer(folder: Path, dumps: Mapping[int, Any], as_json: bool = False) -> Hang:
    """What `diagnose hang` finds in these dumps."""
    return judged(found_in(written(folder, dumps, as_json)))
