"""Tables in Markdown of what the calls found: captures, tune, faults, and what they promised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from told_pages import Call, Found, merged, part

TOO_LITTLE = 0.03  # of a remedy's gain: below it the fault says nothing about the advice


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, "" of no rows."""
    if not rows:
        return ""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def speedup(value: Any) -> str:
    """A range, or a number, of speed-ups."""
    if value is None:
        return "-"
    if isinstance(value, int | float):
        return f"{value:.2f}x"
    low, high = value[0], value[-1]
    return f"{low:.2f}-{high:.2f}x" if high is not None else f"{low:.2f}x or more"


def number(value: float | None, unit: float = 1.0, digits: int = 1) -> str:
    """A figure in a unit; a dash where there is none."""
    return "-" if value is None else f"{value / unit:,.{digits}f}"


def mark(value: bool | None) -> str:
    """Whether it held; a dash where nothing was asked."""
    return {True: "yes", False: "**no**", None: "-"}[value]


def captured(calls: Sequence[Call]) -> dict[str, tuple[str, Found]]:
    """Each capture by name, with the call that made it."""
    found: dict[str, tuple[str, Found]] = {}
    for call in calls:
        for name in ("captures", "captures-again", "captures-more"):
            for job, told in call.found.get(name, {}).items():
                if isinstance(told, dict) and "told" in told and "failed" not in told["told"]:
                    found.setdefault(job, (call.number, told))
    return found


def captures(calls: Sequence[Call]) -> str:
    """What each capture of a Trainer's job says of itself."""
    header = ("job", "call", "class", "first advice", "promised", "MFU", "ms traced", "ms without profiler", "factor")
    rows = []
    for job, (call, told) in captured(calls).items():
        said, factor = told["told"], told["record"].get("overhead_factor")
        mfu = f"{100 * said['mfu']:.1f} %" if said["mfu"] is not None else said["mfu_reason"] or "-"
        rows.append([
            job, call, f"{said['class']} ({said['confidence']})", said["next"] or "nothing",
            speedup(said["next_predicted"]), mfu, number(said["step_ms"]),
            number(told["ms"]["control_before_ns"]), number(factor, digits=3),
        ])  # fmt: skip
    return table(header, rows)


def pairs(calls: Sequence[Call]) -> str:
    """What a change bought beside what was promised of it."""
    found = {}
    for call in calls:
        for name in ("captures", "captures-again", "captures-more"):
            for pair in call.found.get(name, {}).get("predicted and achieved", []):
                if "failed" not in pair:
                    found[pair["before"], pair["after"]] = pair
    rows = [
        [f"{pair['before']} to {pair['after']}", ", ".join(pair["rules"]) or "none", speedup(pair["promised"]),
         speedup(pair["achieved"]), mark(pair["inside"])]
        for pair in found.values()
    ]  # fmt: skip
    header = ("change", "rules that promised", "promised together", "achieved", "inside, within 3 %")
    return table(header, rows) if rows else ""


def parts_of_step(calls: Sequence[Call], most: int = 6) -> str:
    """The largest parts of each capture's waterfall, in points of the step."""
    rows = []
    for job, (_, told) in captured(calls).items():
        parts = sorted(told["told"]["waterfall"], key=lambda each: -each[1])[:most]
        rows.append([job, ", ".join(f"{name} {points:.1f}" for name, points in parts)])
    return table(("job", "largest parts of the peak's 100 points"), rows)


def findings(calls: Sequence[Call]) -> str:
    """All that was found in each capture, in order."""
    told = {job: of["told"] for job, (_, of) in captured(calls).items()}
    return _found(told)


def fault_findings(calls: Sequence[Call]) -> str:
    """The same of each fault."""
    return _found({name: row["told"] for name, row in _faults(calls).items() if "told" in row})


def _found(told: Mapping[str, Found]) -> str:
    rows = [
        [name, ", ".join(f"{rule} {speedup(range_)}" if range_ else rule for rule, range_, _ in of["findings"])]
        for name, of in told.items()
    ]
    return table(("job", "findings, in order, with what is promised"), rows)


def tune(calls: Sequence[Call]) -> str:
    """The runs of the tune."""
    told = part(calls, "tune-told")
    if not told:
        return ""
    header = ("run", "change", "outcome", "promised", "achieved (99 %)", "of run 0", "tok/s", "GB", "s")
    rows = [_rung(rung) for rung in told["rungs"]]
    kept = "\n".join(f"- `{setting}`" for setting in told.get("patch") or ["nothing"])
    left = "; ".join(f"{rule} ({because})" for rule, because, _ in told.get("left", [])) or "nothing"
    return f"{table(header, rows)}\n\nEnded because {told['why_ended']}. Kept:\n\n{kept}\n\nLeft: {left}."


def _rung(rung: Found) -> list[str]:
    measured, achieved, total = rung.get("measured") or {}, rung["achieved"], rung["total"]
    interval = f"{achieved[1]:.2f}x ({achieved[0]:.2f}-{achieved[2]:.2f})" if achieved else "-"
    outcome = rung["decision"] if rung["outcome"] == "ok" else f"{rung['outcome']}, {rung['decision']}"
    return [
        str(rung["number"]), f"`{rung['change']}`" if "=" in rung["change"] else rung["change"], outcome,
        speedup(rung["predicted"]), interval, speedup(total[1] if total else None),
        number(measured.get("tokens_per_s_per_gpu"), digits=0), number(measured.get("memory_gb")),
        number(rung["seconds"], digits=0),
    ]  # fmt: skip


def failures(calls: Sequence[Call]) -> str:
    """Runs of the tune that failed, with what they said."""
    rungs = part(calls, "tune-told").get("rungs", [])
    failed = [rung for rung in rungs if rung["outcome"] == "failed"]
    return "\n".join(f"- Run {rung['number']} (`{rung['change']}`): {rung['because'].strip()}" for rung in failed)


def faults(calls: Sequence[Call]) -> str:
    """Each known fault: what was told, and what the remedy bought."""
    header = (
        "fault",
        "class",
        "right",
        "first advice",
        "right",
        "told at all",
        "promised",
        "achieved",
        "inside, within 5 %",
    )
    rows = []
    for name, row in _faults(calls).items():
        if "class" not in row:
            rows.append([name, row.get("failed") or row.get("not run") or "-", *["-"] * 7])
            continue
        rows.append([
            name, row["class"], mark(row["class right"]), row["next"] or "nothing", mark(row["advice right"]),
            mark(row["among findings"]), speedup(row["promised"]), speedup(row.get("achieved")),
            mark(row.get("inside")),
        ])  # fmt: skip
    return table(header, rows)


def fault_times(calls: Sequence[Call]) -> str:
    """Milliseconds of a step with the fault and without, neither under the probe, and under the probe."""
    rows = []
    for name, row in _faults(calls).items():
        times = row.get("times", {})
        cells = [number(times.get(form, {}).get("step_ms"), digits=2) for form in ("slow", "fast", "probed")]
        rows.append([name, *cells, number(row.get("probed / slow"), digits=2)])
    return table(("fault", "ms with it", "ms with the remedy", "ms with it, the window among them", "ratio"), rows)


def _faults(calls: Sequence[Call]) -> dict[str, Any]:
    return merged(calls, "faults", "faults-rest")


def score(calls: Sequence[Call]) -> str:
    """How often class, advice and range were right."""
    rows = [row for row in _faults(calls).values() if "class" in row]
    if not rows:
        return ""
    right = {key: _right(rows, key) for key in ("class right", "advice right", "among findings", "inside")}
    missing = [name for name, row in _faults(calls).items() if "class" not in row]
    left = f" Not measured: {', '.join(missing)}." if missing else ""
    return (
        f"{len(rows)} faults ran. The class was right in {right['class right']}, the first advice in "
        f"{right['advice right']}; the right rule was among the findings in {right['among findings']}; the achieved "
        f"gain lay inside the promised range, widened by 5 %, in {right['inside']}.{left}"
    )


def _right(rows: Sequence[Found], key: str) -> str:
    asked = [row[key] for row in rows if row.get(key) is not None]
    return f"{sum(asked)} of {len(asked)}"


def wrong(calls: Sequence[Call]) -> str:
    """Where the tool was wrong, one line each."""
    rows = {name: row for name, row in _faults(calls).items() if "class" in row}
    return "\n".join(f"- {name}: {what}" for name, row in rows.items() for what in _wrong(row))


def _wrong(row: Found) -> Iterator[str]:
    classes, rules = row["truth"]
    if row["class right"] is False:
        yield f"the class was {row['class']}, true is {' or '.join(classes)}"
    if row["advice right"] is False:
        told = "told further down" if row["among findings"] else "not told"
        yield f"the first advice was {row['next']}; right is {' or '.join(rules) or 'none'}, {told}"
    if row.get("inside") is False:
        promised, achieved = speedup(row["promised"]), speedup(row["achieved"])
        yield f"{promised} were promised of the right change, {achieved} achieved"


def too_little(calls: Sequence[Call]) -> str:
    """Faults whose remedy bought nothing: they say nothing about a range, and little about the advice."""
    gains = {name: row["achieved"] for name, row in _faults(calls).items() if "achieved" in row}
    few = ", ".join(f"{name} ({gain:.2f}x)" for name, gain in gains.items() if gain < 1 + TOO_LITTLE)
    return f"The remedy bought less than 3 % for {few}: such a row says little about the rule." if few else ""


def limits(calls: Sequence[Call]) -> str:
    """Largest micro-batches: what fit says, what ran."""
    found, rows = part(calls, "limits"), []
    for attention in ("sdpa", "eager"):
        said, seen = found.get(f"fit {attention}", {}), found.get(f"seen {attention}", {})
        if "fits" in seen:
            peak = max((each.get("reserved") or 0 for each in seen["tries"] if each["ok"]), default=0) or None
            largest = [str(value or "-") for value in (said.get("largest"), seen["fits"], seen["fails"])]
            rows.append([attention, *largest, number(peak, 2**30)])
    return table(("attention", "fit says", "runs", "fails", "GiB reserved at most"), rows) if rows else ""
