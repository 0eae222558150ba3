"""Kinds of what others tell: monitors, compilers, text logs, the probe of a job's input, a tune so far, an agent."""

import json
import random
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import diagnoses  # of tests/
import msgspec
import text_logs
from data_pipeline.measurements import made as measured  # of tests/

from diagnose.commands.tune.answer import Rung, Tuning
from diagnose.diagnosis import Patch

from . import answers, beside, traces
from .case import Case
from .damage import damaged
from .seeds import drawn
from .tree import mutated
from .values import odd
from .written import at_times_damaged, form, json_bytes

_BEGIN_S = 1_700_000_000
_CARD = {"gpu": "0", "pci_bus_id": "00000000:3B:00.0", "Hostname": "node7"}
_FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": 1155, "DCGM_FI_DEV_MAX_SM_CLOCK": 1980, "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": 32,
    "DCGM_FI_DEV_POWER_USAGE": 690.5, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": 7, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 1,
}  # fmt: skip
_COMPILED: dict[str, Any] = {
    "co_name": "torch_dynamo_resume_in_forward_at_17", "co_filename": "/job/train.py", "co_firstlineno": 10,
    "compile_id": "0/1", "is_forward": True,
    "recompile_reason": "tensor 'x' size mismatch at index 0. expected 8, actual 9", "fail_type": "Unsupported",
    "fail_user_frame_filename": "/job/train.py", "fail_user_frame_lineno": 12,
    "restart_reasons": ["Data-dependent branching"],
}  # fmt: skip
ASKED: Mapping[str, Mapping[str, Any]] = {
    "analyze": {"path": "trace.json", "rank": 0, "step": 11, "params": 1e9, "gpu": "H100"},
    "plan": {"path": "trace.json", "gpu_hour_price": 2.5, "tokens": 1e9, "critical_batch": "512seq", "mtbf_hours": 24},
    "compare": {"before": "trace.json", "after": "a.json", "noise": "2%"},
    "explain": {"name": "launch-bound", "from_run": "trace.json"},
    "fit": {"model": "config.json", "gpu": "H100", "gpus": 8, "liger": True, "attn": "flash", "calibrate": "a.json"},
}


def monitored(seeded: random.Random) -> Case:
    """A trace and its record, beside what a monitor or torch.compile tells of the same time."""
    record = json_bytes(beside.record(seeded))
    files = {"trace/rank0.json": json_bytes(drawn(seeded)), "trace/capture-rank0.json": record}
    told = _metrics(seeded) if seeded.random() < 0.6 else _compilations(seeded)
    told = at_times_damaged(seeded, told)
    option = ("--metrics", "@metrics.txt") if told.find(b"DCGM") >= 0 else ("--torch-trace", "@torch_trace")
    name = option[1].removeprefix("@") + ("" if "metrics" in option[1] else "/dedicated_log_torch_trace_rank_0_x.log")
    return Case("monitored", ("analyze", "@trace", *option, "--json"), files | {name: told})


def _metrics(seeded: random.Random) -> bytes:
    """The page of DCGM's exporter, or Prometheus' answer to a query over time."""
    fields = seeded.sample(list(_FIELDS), 4)
    if seeded.random() < 0.4:
        rows = mutated(seeded, [{"name": name, "labels": dict(_CARD), "value": _FIELDS[name]} for name in fields])
        return b"\n".join(_line(row) for row in rows if isinstance(row, dict)) if isinstance(rows, list) else b"DCGM"
    series = [
        {"metric": {"__name__": name, **_CARD}, "values": [[_BEGIN_S + at, str(_FIELDS[name])] for at in range(9)]}
        for name in fields
    ]
    return json_bytes(mutated(seeded, {"status": "success", "data": {"resultType": "matrix", "result": series}}, 4))


def _line(row: Mapping[str, Any]) -> bytes:
    labels = row.get("labels")
    told = ",".join(f'{name}="{value}"' for name, value in labels.items()) if isinstance(labels, dict) else ""
    return f"{row.get('name', 'DCGM')}{{{told}}} {str(row.get('value'))[:90]}".encode("utf-8", "replace")


def _compilations(seeded: random.Random) -> bytes:
    rows = mutated(seeded, [{"compilation_metrics": dict(_COMPILED), "rank": 0} for _ in range(3)], 4)
    lines = rows if isinstance(rows, list) else [rows]
    return b"\n".join(b"V1122 19:00:00.1 7 torch/_dynamo/utils.py:1] " + json_bytes(row) for row in lines)


def text_log(seeded: random.Random) -> Case:
    """What a training loop prints, its bytes damaged, now and then much of it."""
    write: Callable[[list[float]], list[str]] = text_logs.LOGS[seeded.choice(list(text_logs.LOGS))]
    lines = write(text_logs.step_times(seeded.choice([20, 160, 200])))
    text = "\n".join(lines).encode()
    for _ in range(seeded.choice([1, 1, 5, 20])):
        text = damaged(seeded, text)
    return Case("text log", ("series", "@train.log", *form(seeded)), {"train.log": text})


def pipeline(seeded: random.Random) -> Case:
    """What the probe measured of a job's input."""
    found = mutated(seeded, msgspec.to_builtins(measured()), 3)
    step = ("--step-ms", "250") if seeded.random() < 0.5 else ()
    return Case(
        "pipeline", ("data", *step, *form(seeded), "--", "true"), {"measured.json": json_bytes(found)}, "not run"
    )


def tune(seeded: random.Random) -> Case:
    """The folder of a tune: its state and the diagnoses of its runs, from which it goes on."""
    diagnosis = json.loads(diagnoses.diagnosis().to_json())
    patch = Patch(target="training_arguments", set={"bf16": True})
    own = {"training_arguments": {"bf16": True}}
    decision = seeded.choice(["kept", "unclear", "rolled back"])
    rungs = (
        Rung(number=0, change="as it is", outcome="ok", decision="first", seconds=9.0, diagnosis="run-0.json"),
        Rung(
            number=1, rule="half", change="bf16", outcome="ok", decision=decision, patch=patch, own=own, settings=own,
            predicted=(1.5, 2.0), achieved=(1.4, 1.5, 1.6), seconds=9.0, diagnosis="run-1.json",
        ),
    )  # fmt: skip
    state = msgspec.to_builtins(Tuning(command=("true",), rungs=rungs))
    state["rungs"] = mutated(seeded, state["rungs"]) if seeded.random() < 0.8 else state["rungs"]
    run = mutated(seeded, diagnosis) if seeded.random() < 0.5 else diagnosis
    kept = {"tune.json": state, "run-0.json": diagnosis, "run-1.json": run}
    files = {f"tune/{name}": json_bytes(content) for name, content in kept.items()}
    more = ("--runs", seeded.choice(["2", "5"]), *seeded.choice([(), ("--no-repeat",), ("--budget", "1h")]))
    return Case("tune", ("tune", "--resume", "@tune", "--no-ledger", *more), files, "not run")


def agent(seeded: random.Random) -> Case:
    """What an agent asks of a tool, about sound files; or a sound question about a trace that is not."""
    if seeded.random() < 0.4:
        trace = drawn(seeded)
        for _ in range(seeded.randint(1, 3)):
            traces.damage(seeded, trace)
        about = seeded.choice(["analyze", "plan", "compare"])
        files = {**files_of_agent(), "trace.json": json_bytes(trace)}
        question = {"before": "trace.json", "after": "a.json"} if about == "compare" else {"path": "trace.json"}
        return Case("agent", (about, json.dumps(question)), files, "agent")
    tool = seeded.choice(list(ASKED))
    asked = dict(ASKED[tool])
    needed = set(list(asked)[: 2 if tool in ("compare", "fit") else 1])
    for name in seeded.sample(sorted(asked.keys() - needed), len(asked.keys() - needed) // 2):
        del asked[name]
    asked = mutated(seeded, asked)
    if seeded.random() < 0.2:
        asked[seeded.choice(["path", "model", "rule", "noise", "before", "x"])] = odd(seeded)
    named = tool if seeded.random() < 0.95 else seeded.choice(["", "Analyze", "mcp", "run", "\x1b[2J", "x" * 9000])
    return Case("agent", (named, json_bytes(asked).decode()), files_of_agent(), "agent")


@cache
def files_of_agent() -> dict[str, bytes]:
    """A sound trace, a diagnosis and a model."""
    trace = json_bytes(drawn(random.Random(1)))
    diagnosis = answers.diagnosis_of_sample().encode()
    return {"trace.json": trace, "a.json": diagnosis, "config.json": json_bytes(answers.MODEL)}
