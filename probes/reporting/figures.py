"""Reported parts of a diagnosis: a line, figures by name, and a document without paths, hosts or arguments.

Each takes the JSON object of `diagnose analyze --json` and picks what it names; what a later version adds to the
diagnosis is never sent by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..introspection import plain

CLASSES = ("data", "host", "memory", "compute", "communication", "unexplained")
PREFIX = "diagnose/"
_WITHOUT_A_CHANGE = {
    "nothing": "nothing worth doing",
    "capture": "the capture is at fault: read its report",
    "unknown": "what to change next is not known",
}


def line(diagnosis: Mapping[str, Any]) -> str:
    """The class, and the next change with its predicted gain."""
    following = diagnosis["next"]
    told = _change(following) if following["kind"] == "change" else _WITHOUT_A_CHANGE[following["kind"]]
    return f"{diagnosis['verdict']['class']}, {told}"


def scalars(diagnosis: Mapping[str, Any]) -> dict[str, float]:
    """Figures of the window by name; unknown ones are left out.

    `step_ms` is the step of the report (of the device, without a GPU of the host), `<class>_percent` its share for each
    class of causes, which add up to 100. `mfu_percent` is of the peak. `gain_low` and `gain_high` are the factors that
    the next change makes the step faster by, in the worst and the best case.
    """
    steps, mfu = diagnosis["steps"], diagnosis["mfu"]["value"]
    took_ns = steps["time_ns"] if steps["device_time_ns"] is None else steps["device_time_ns"]
    found: dict[str, float | None] = {"step_ms": took_ns / steps["count"] / 1e6 if steps["count"] else None}
    if steps["numbers"]:
        found["window_step"] = steps["numbers"][0]
    if mfu is not None:
        found["mfu_percent"] = 100 * mfu
    found |= _class_percents(diagnosis["ledger"])
    low, high = diagnosis["next"]["predicted_speedup"] or (None, None)
    found |= {"gain_low": low, "gain_high": high}
    return {PREFIX + name: float(value) for name, value in found.items() if value is not None}


def document(diagnosis: Mapping[str, Any]) -> dict[str, Any]:
    """The line, the figures, all causes and the findings, as names and numbers alone."""
    return {
        "line": line(diagnosis),
        "figures": scalars(diagnosis),
        "causes_percent": {entry["cause"]: 100 * entry["share"] for entry in diagnosis["ledger"]},
        "findings": [
            {
                "rule": finding["rule"],
                "class": finding["class"],
                "severity": finding["severity"],
                "predicted_speedup": finding["predicted_speedup"],
                "settings": _settings(finding["patch"]),
            }
            for finding in diagnosis["findings"]
        ],
    }


def _class_percents(breakdown: list[Mapping[str, Any]]) -> dict[str, float]:
    """Percent of the step by class, each of them: in a breakdown that adds up to the step, a missing class is zero."""
    if not breakdown:
        return {}
    return {
        f"{name}_percent": 100 * sum(entry["share"] for entry in breakdown if entry["class"] == name)
        for name in CLASSES
    }


def _change(following: Mapping[str, Any]) -> str:
    settings = ", ".join(f"{key}={value}" for key, value in _settings(following["patch"]).items())
    gain = _gain(following["predicted_speedup"])
    if settings and gain:
        return f"{settings} {gain}"
    action = settings or (following["action"] if following["patch"] is None else "") or following["rule"]
    return f"next: {action} ({gain or 'what it buys is not known'})"


def _settings(patch: Mapping[str, Any] | None) -> dict[str, Any]:
    """The values of the patch that are numbers, flags or words; empty for lines of code."""
    if patch is None or patch["target"] == "code":
        return {}
    return {key: value for key, value in patch["set"].items() if value is not None and plain(value) is not None}


def _gain(predicted: list[float | None] | None) -> str:
    low, high = predicted or (None, None)
    if low is not None and low >= 1.005:
        return f"buys {low:.2f}x"
    if high is not None and high >= 1.005:
        return f"buys {high:.2f}x at most" + (f", {low:.2f}x at worst" if low is not None and low < 0.995 else "")
    return ""
