"""A rule's change in the words of the job that a diagnosis is of."""

from diagnose.diagnosis import Diagnosis, Patch
from diagnose.facts import Fact
from diagnose.patch.job_framework import JobFramework, framework_of


def world(diagnosis: Diagnosis) -> JobFramework:
    known = {f.name: Fact(f.name, f.value, f.unit) for f in diagnosis.facts if f.value is not None}  # type: ignore[arg-type]
    return framework_of(known)


def in_its_words(diagnosis: Diagnosis, patch: Patch | None) -> Patch | None:
    """The patch as the job makes it; None for none."""
    return patch and world(diagnosis).patch(patch)


def called(diagnosis: Diagnosis, setting: str) -> str:
    """What the job calls a setting that rules name."""
    return world(diagnosis).named(setting)
