"""Tables in Markdown of what the card reaches, of `fit`, of what the probe costs, and of paths that need CUDA."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from job_tables import mark, number, table
from told_pages import Call, part

UNITS = {"FLOP/s": (1e12, "TFLOP/s"), "bytes/s": (1e9, "GB/s"), "us": (1.0, "us")}
FIELDS = {  # of the table of GPUs: what stands beside a figure
    "products bf16": "bf16_tflops", "products fp16": "fp16_tflops", "products tf32": "tf32_tflops",
    "products fp32": "fp32_tflops", "products fp8": "fp8_tflops", "memory": "hbm_gbs",
}  # fmt: skip


def peaks(calls: Sequence[Call]) -> str:
    """Each measured ceiling, and its share of the data sheet's peak where the table has one."""
    found = part(calls, "peaks")
    board = _board(found)
    rows = [
        _ceiling(kind, shape, value, board)
        for kind, values in found.items()
        if isinstance(values, dict) and kind.split(", ")[-1].split(" ")[0] in UNITS
        for shape, value in values.items()
    ]
    return table(("what", "of", "reached", "of the data sheet's"), rows)


def _ceiling(kind: str, shape: str, value: Any, board: dict[str, str]) -> list[str]:
    title, unit = kind.split(", ")
    scale, word = UNITS[unit.split(" ")[0]]
    of = shape.strip("()").replace(", ", " x ") if shape.startswith("(") else shape
    if isinstance(value, dict):
        return [title, of, value.get("failed", "-"), "-"]
    sheet = float(board[FIELDS[title]]) if FIELDS.get(title) in board else None
    share = f"{100 * value / scale / sheet:.1f} % of {sheet:,.0f}" if sheet else "-"
    return [title, of, f"{number(value, scale)} {word}", share]


def _board(found: Any) -> dict[str, Any]:
    """The row of the table of GPUs for the card, its columns by name."""
    constants = found.get("constants") or {}
    if constants.get("card"):
        return {name: value for name, value in constants["card"][0].items() if value is not None}
    texts = [text for text in constants.get("gpus", []) if f"'{found.get('device')}'" in text]
    return dict(re.findall(r"(\w+)=([\d.]+)", texts[0])) if texts else {}


def beside_constants(calls: Sequence[Call]) -> str:
    """The product's measured columns beside what this card reached."""
    found = part(calls, "peaks")
    board = _board(found)
    products = [v for v in found.get("products bf16, FLOP/s", {}).values() if isinstance(v, float)]
    copies = [v for v in found.get("memory, bytes/s", {}).values() if isinstance(v, float)]
    if not board or not products:
        return ""
    known = [str(board.get(column, "none")) for column in ("measured_gemm_tflops", "measured_hbm_gbs")]
    rows = [
        ["largest bf16 product, TFLOP/s", known[0], number(max(products), 1e12)],
        ["largest traffic, GB/s", known[1], number(max(copies), 1e9)],
    ]
    return table(("what", "the table of GPUs, measured", "reached here"), rows)


def fit(calls: Sequence[Call]) -> str:
    """What `diagnose fit` said of jobs, beside what they did."""
    header = ("job", "fit, ms", "ran, ms", "fit / ran", "in fit's range", "fit, GiB", "reserved, GiB", "fit / reserved")
    rows = []
    for row in part(calls, "fit").get("rows", []):
        job, said, seen = row["job"], row["fit"], row["seen"]
        if "step_s" not in said or "step_s" not in seen:
            rows.append([_job(job), said.get("failed") or seen.get("failed") or "-", *["-"] * 6])
            continue
        low, high = said["range_s"]
        rows.append([
            _job(job), number(1e3 * said["step_s"]), number(1e3 * seen["step_s"]),
            number(row["predicted / measured step"], digits=2), mark(low <= seen["step_s"] <= high),
            number(said["bytes"], 2**30), number(seen.get("reserved"), 2**30),
            number(row.get("counted / reserved memory"), digits=2),
        ])  # fmt: skip
    return table(header, rows)


def _job(job: Any) -> str:
    kinds = [job["dtype"], job["attention"]]
    kinds += ["checkpointing"] if job["checkpointing"] == "full" else []
    kinds += ["Liger"] if job["liger"] else []
    return f"{job['model']}, {job['batch']} x {job['tokens']}, {', '.join(kinds)}"


ORDER = ("first", "second")


def overhead(calls: Sequence[Call]) -> str:
    """Each round of each run: the mean step alone, behind the window, and armed."""
    rows = []
    for run, call in enumerate((call for call in calls if "overhead" in call.found), 1):
        for size, told in call.found["overhead"].items():
            for turn, each in enumerate(told["rounds"], 1):
                alone, behind, armed = (each[form][0] for form in ("alone", "behind the window", "armed"))
                cells = [number(value, digits=3) for value in (alone, behind, armed, behind / alone, armed / alone)]
                rows.append([f"{run}", size, str(turn), *cells])
    return table(
        ("run", "job", "round", "ms alone", "ms behind the window", "ms armed", "behind / alone", "armed / alone"), rows
    )


def residue(calls: Sequence[Call]) -> str:
    """Steps of many small kernels after torch.profiler alone has recorded, by whether CUPTI detached."""
    rows = [
        [name, number(each["ms before"], digits=2), *(number(each[f"after the {n} / before"], digits=2) for n in ORDER)]
        for name, runs in part(calls, "residue").items()
        for each in runs
        if "ms before" in each
    ]
    return table(("CUPTI", "ms before", "after one recording / before", "after two / before"), rows)


def behind(calls: Sequence[Call]) -> str:
    """The median step behind the window over that before it, of known faults that wait for the host."""
    held = [call for call in calls if "faults" in call.found]
    told = [{n: row.get("behind / before") for n, row in call.found["faults"]["rows"].items()} for call in held]
    names = [name for name in dict.fromkeys(n for each in told for n in each) if all(each.get(name) for each in told)]
    rows = [[name, *(number(each[name], digits=2) for each in told)] for name in names]
    return table(("fault", *(f"`{call.commit}`" for call in held)), rows)


def noise(calls: Sequence[Call]) -> str:
    """How far equal runs lie apart, and the medians of each run."""
    held = [call.found["overhead"] for call in calls if "overhead" in call.found]
    sizes = dict.fromkeys(size for each in held for size in each)
    return "\n".join([*_cut(calls), *(line for size in sizes for line in _apart(size, held))])


def _cut(calls: Sequence[Call]) -> list[str]:
    ends = [row["end"] for call in calls for row in call.parts if row["part"] == "overhead"]
    return [f"- run {run}: {end}" for run, end in enumerate(ends, 1) if end != "ended"]


def _apart(size: str, held: Sequence[Any]) -> list[str]:
    told = [each[size] for each in held if size in each]
    alone = [turn["alone"][0] for each in told for turn in each["rounds"]]
    lines = [
        f"- {size}, {key}: {', '.join(f'{each[key]:.2f}' for each in told)} (median of each run)"
        for key in ("behind the window / alone", "armed / alone")
    ]
    apart = f"{100 * (max(alone) / min(alone) - 1):.0f} % apart in {len(alone)} processes"
    return [*lines, f"- {size}: the job alone took {min(alone):.2f} to {max(alone):.2f} ms, {apart}"]


def readings(calls: Sequence[Call]) -> str:
    """What each reading of NVML takes, on an idle card and beside work."""
    found = part(calls, "environment").get("nvml") or {}
    names = [name.removeprefix("idle_") for name in found if name.startswith("idle_")]
    rows = [[name, *(number(found[f"{state}_{name}"]["ms"], digits=2) for state in ("idle", "busy"))] for name in names]
    return table(("reading", "ms, idle", "ms, busy"), rows) if rows else ""


def paths(calls: Sequence[Call]) -> str:
    """Each path that only a GPU takes."""
    rows = []
    for name, told in part(calls, "cuda-paths").items():
        if isinstance(told, dict):
            value = told["value"] if isinstance(told["value"], dict) else {}
            good = "failed" not in value and value.get("code", 0) == 0
            said = value.get("failed") or ", ".join(filter(None, (value.get("class"), value.get("next"))))
            rows.append([name, mark(good), said or "-", number(told["s"])])
    return table(("path", "ended well", "what was told", "s"), rows)


def graphs(calls: Sequence[Call]) -> str:
    """Jobs that capture their step in a CUDA graph after so many steps."""
    found, rows = part(calls, "graphs"), []
    for before, told in sorted(found.items(), key=lambda item: int(item[0])):
        said = told.get("not run") or told["told"].get("class", "no diagnosis")
        rows.append([before, mark(told["survived"]), said, number(told["told"].get("step_ms"), digits=2)])
    return table(("steps before the capture", "the job survived", "class", "ms of a step"), rows)


def nsight(calls: Sequence[Call]) -> str:
    """Whether a usable nsys is there, and what it left."""
    found, lines = part(calls, "nsight"), []
    for told in found.values():
        if not isinstance(told, dict):
            continue
        lines.append(f"- {told.get('version', 'nsys, which does not say its version')}")
        for step in ("profile", "import", "export", "analyze", "diagnose run --nsys"):
            if step in told:
                code = told[step]["code"]
                end = f"ended with {code}" if code is not None else f"did not end within {told[step]['s']} s"
                why = " ".join(told[step]["err"].split())[-160:].split("/")[-1] if code else ""
                lines.append(f"- `{step}` {end}{': ' + why if why else ''}")
        if "files" in told:
            lines.append(f"- files: {', '.join(told['files']) or 'none'}")
    return "\n".join(lines) or "No nsys is on that machine."
