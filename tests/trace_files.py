"""Small trace files, and what is compared of the traces read from them."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from kineto import Trace as Job

from diagnose.trace import Trace

KERNEL = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 10.5, "dur": 2.25}


def saved(path: Path, content: object) -> Path:
    """`content` as the file `path`: bytes and text as they are, a list as the events, the rest as JSON."""
    if isinstance(content, list):
        content = {"traceEvents": content}
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def rows(trace: Trace) -> list[tuple[Any, ...]]:
    """One tuple for each event, ids resolved."""
    table = []
    for i in range(len(trace)):
        numbers = [int(getattr(trace, c)[i]) for c in ("ts", "dur", "pid", "tid", "stream", "correlation", "bytes")]
        shape = trace.shapes[trace.shape[i]] if trace.shape[i] >= 0 else None
        table.append((trace.names[trace.name[i]], trace.cats[trace.cat[i]], *numbers, int(trace.external_id[i]), shape))
    return table


def assert_same(a: Trace, b: Trace) -> None:
    for f in fields(Trace):
        ours, theirs = getattr(a, f.name), getattr(b, f.name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs, f.name)
            assert ours.dtype == theirs.dtype, f.name
        elif f.name == "collectives":
            assert [np.asarray(v).tolist() for v in vars(ours).values()] == [
                np.asarray(v).tolist() for v in vars(theirs).values()
            ]
        elif f.name not in ("path", "size"):
            assert ours == theirs, f.name


def small_job() -> Job:
    job = Job()
    for _ in range(2):
        with job.step():
            job.op("aten::mm", [[64, 64], [64, 64]], kernel="gemm", gpu_us=40)
            job.copy(4096)
            job.item()
    job.collective("allreduce", 4096, 20)
    return job


OPERATOR = KERNEL | {"cat": "cpu_op"}
TRICKY = [
    OPERATOR | {"name": 'a lambda } , { "ph": "X", "name" : in a string'},
    OPERATOR | {"name": 'an \\escaped "quote" and \\'},
    OPERATOR | {"args": {"stack": [{"name": "f"}, {"name": "g"}, {"id": 1}], "stream": 7}},
    OPERATOR | {"args": {"]": "]}]", "list": [[{"ts": 1}], [{"ts": 2}]]}, "name": "brackets ]}"},
    OPERATOR | {"args": {}},
    OPERATOR | {"name": "é 漢字 🙂"},
    OPERATOR | {"args": {"many": [{"name": i} for i in range(200)]}},
    OPERATOR | {"ts": "12.25", "args": []},
]
