"""Gains on a host whose cores are taken: withheld, or given with that said; and its time on a core."""

from collections.abc import Mapping

from diagnose.attribution.causes import CORE_WAIT, ON_A_CORE_OF_HOST
from diagnose.facts import Facts, spoken
from diagnose.metrics.run.core_wait import NOBODY
from diagnose.predict.replay.host_speeds import RecordedCause

FREED = "nothing else runs on the cores of the job then"
TOO_BUSY = "no gain is predicted: the machine was too busy with other processes to judge this job"


def is_too_busy(facts: Facts) -> bool:
    """Whether other processes take so much of the cores that the job is not judged."""
    fact = facts.get("too_busy_to_judge")
    return fact is not None and fact.value is True


def on_crowded_host(facts: Facts) -> str:
    """A clause for gains that rest on steps which waited for cores; "" if they hardly did, or it is not known."""
    waits, by = facts.get("core_wait_share"), facts.get("crowded_by")
    if waits is None or by is None or by.value == NOBODY or not isinstance(by.value, str):
        return ""
    waited = spoken(waits.value, "share") if isinstance(waits.value, float) else ""
    return f"the host was crowded: the training thread waits {waited} of the time for a CPU core" if waited else ""


def on_core_part(recorded: Mapping[str, RecordedCause]) -> float:
    """The part of the host's work without its waiting for a core, which ranges hold and its causes do not."""
    waited_ns = recorded[CORE_WAIT].ns if CORE_WAIT in recorded else 0.0
    computed_ns = sum(found.ns for cause, found in recorded.items() if cause in ON_A_CORE_OF_HOST)
    return computed_ns / (computed_ns + waited_ns) if computed_ns else 1.0
