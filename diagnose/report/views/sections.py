"""The sections of a report. Text, HTML and Markdown each show all of them, or give a reason for leaving one out."""

from collections.abc import Mapping

import msgspec

SECTIONS: Mapping[str, tuple[str, ...]] = {  # section -> the fields of the Diagnosis that it shows
    "verdict": ("verdict", "mfu", "trains", "speed", "cpu_only", "period"),
    "steps": ("steps", "rank"),
    "applied": ("applied",),
    "notes": ("findings",),
    "windows": ("windows",),
    "history": ("history",),
    "goodput": ("goodput",),
    "step_times": ("step_times", "later_stalls"),
    "slow_steps": ("slow_steps",),
    "memory_over_time": ("memory_over_time",),
    "late_ranks": ("stragglers", "postmortem"),
    "missing": ("trace",),
    "ledger": ("ledger", "waterfall"),
    "plan": ("next", "plan", "replay", "track_records"),
    "cost": ("cost",),
    "findings": ("findings",),
    "not_advised": ("not_advised",),
    "not_judged": ("not_judged",),
    "job_timeline": ("job_timeline",),
    "timeline": ("timeline",),
    "roofline": ("roofline", "operators", "roofs"),
    "kernels": ("kernels",),
    "host_operators": ("host_operators",),
    "user_code": ("user_code",),
    "ranges": ("ranges",),
    "capacity": ("capacity",),
    "ranks": ("ranks",),
    "job": ("postmortem",),
    "provenance": ("trace", "versions", "origin"),
}
IN_NO_SECTION = ("schema_version", "facts", "setup", "command")  # other sections quote them; --json has all


class LeftOut(msgspec.Struct, frozen=True):
    """The reason why a report leaves a section out."""

    because: str


def spelled(section: str) -> str:
    """The section's name in a sentence."""
    return f"the {section.replace('_', ' ')}"
