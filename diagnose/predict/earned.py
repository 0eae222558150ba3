"""The most that a gain may promise: the step over the work that remains of it.

A change that removes a share of the mean step makes it at most 1 / (1 - share) times as fast, whatever else is known of
it. The share is the one that the finding shows as evidence, or a larger one by the replay, which the report then names.
"""

from collections.abc import Iterable

import msgspec

from diagnose.diagnosis import Evidence
from diagnose.diagnosis.terms import Speedup
from diagnose.facts import HOST_STEP, STEP, Facts, Unknown, spoken
from diagnose.rule import Rule

REPLAY_ERROR = 0.02  # how near the replay of a trace comes to that of the same job with the change
ROUNDING = 0.005  # of a speedup, which is printed with two digits
NO_END = (
    f"what is left of the step in the best case is less than the {spoken(REPLAY_ERROR, 'share')} of it that a replay "
    "may miss, and nothing is promised beyond"
)


def most_by(share: float) -> float:
    """The speed of a step of which this share goes."""
    return 1 / (1 - share) if share < 1 else float("inf")


def share_of(gain: float) -> float:
    """The share of a step that goes if it is so much faster; below 0 if it is slower."""
    return 1 - 1 / gain


def evidence_of(cured: Iterable[Rule], facts: Facts) -> tuple[Evidence, ...]:
    """The evidence of the first rule, and of the others that its change cures.

    What the others only find absent is left out: a share of nothing is no evidence.
    """
    own, *others = (rule.judge(facts).evidence for rule in cured)
    rests_on = (name for names in others for name in names if facts[name].value != 0)
    return tuple(
        Evidence(fact=name, value=value, unit=facts[name].unit, of=facts[name].of)
        for name in dict.fromkeys((*own, *rests_on))
        if not isinstance(value := facts[name].value, Unknown)
    )


def evidence_share(evidence: Iterable[Evidence]) -> float:
    """The share of the step that the evidence shows; 0 if it shows none."""
    shares = (item.value for item in evidence if item.unit == "share" and item.of in (STEP, HOST_STEP))
    return min(sum(float(share) for share in shares), 1.0)


class Earned(msgspec.Struct, frozen=True):
    """The shares of the step that a change is known to remove: by the evidence, and for the high end of its gain."""

    evidence: float
    removed: float

    @property
    def exceeds_evidence(self) -> bool:
        """Whether the high end rests on more than the evidence shows, so that the report has to name it."""
        return self.evidence > 0 and most_by(self.removed) > most_by(self.evidence) * (1 + ROUNDING)

    def named(self, how: str) -> str:
        """A sentence on the excess, "" if there is none; `how` says where it comes from."""
        if not self.exceeds_evidence:
            return ""
        shown, whole = spoken(self.evidence, "share"), spoken(self.removed, "share")
        return f"the evidence is {shown} of the step, and the high end removes {whole} of it: {how}"


def is_resolved(gain: float) -> bool:
    """Whether what remains of a step that is so much faster is more than the error of its replay."""
    return gain * REPLAY_ERROR <= 1


def resolved(gain: Speedup) -> Speedup:
    """The gain without a high end that is not resolved; a change that may gain nothing keeps the bound."""
    low, high = gain
    if high is None or is_resolved(high):
        return gain
    most = most_by(1 - REPLAY_ERROR)
    return (min(low, most), None) if low > 1 else (low, most)
