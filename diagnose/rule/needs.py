"""Preconditions of rules on the job: whether something trains, on whose GPUs, or on none."""

from collections.abc import Iterable, Mapping

from diagnose.facts import Fact, Facts, Scalar, Unknown
from diagnose.rule.rule_file import Need, Target

NEEDS: Mapping[Need, tuple[str, Scalar]] = {
    "training": ("trains", True),
    "nvidia": ("gpu_vendor", "NVIDIA"),
    "gpu": ("has_gpu", True),
    "cpu": ("has_gpu", False),
}
OF_TRAINING: tuple[Target, ...] = ("training_arguments", "ddp")  # settings that only what trains has


def lacks(needs: Iterable[Need], facts: Facts) -> bool:
    """Whether a need is known not to be met: the rule is about other jobs."""
    return any(_known(name, facts) and facts[name].value != wanted for name, wanted in map(NEEDS.__getitem__, needs))


def unknown_needs(needs: Iterable[Need], facts: Facts) -> list[str]:
    """The facts that decide whether the needs are met, but are unknown."""
    return [name for name, _ in map(NEEDS.__getitem__, needs) if not _known(name, facts)]


def met(needs: Iterable[Need], units: Mapping[str, str]) -> dict[str, Fact]:
    """Facts of a job that meets the needs: what an example of a rule leaves out."""
    return {name: Fact(name, wanted, units.get(name, "")) for name, wanted in map(NEEDS.__getitem__, needs)}


def trains_nothing(facts: Facts) -> bool:
    """Whether it is known that the job does not train."""
    return lacks(("training",), facts)


def _known(name: str, facts: Facts) -> bool:
    return name in facts and not isinstance(facts[name].value, Unknown)
