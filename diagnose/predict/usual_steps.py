"""The gain for the whole run of a change to its usual steps, in a job with a phase that comes every so many steps."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from diagnose.diagnosis import Speedup
from diagnose.facts import Facts, Unknown, spoken
from diagnose.rule import Rule
from diagnose.rule.remedy import Remedy

_LEAST = 1e-3


def part_of_run(facts: Facts) -> float:
    """The part of the run that its usual steps are: all but what the slow steps take beyond them."""
    fact = facts.get("slow_phase_run_share")
    return 1.0 if fact is None or isinstance(fact.value, Unknown | str) else 1.0 - float(fact.value)


class _Predicts(Protocol):
    facts: Facts


Self = TypeVar("Self", bound=_Predicts)
After = ParamSpec("After")
Predict = Callable[Concatenate[Self, Rule, After], Speedup | None]


def over_run(predict: Predict[Self, After]) -> Predict[Self, After]:
    """Make a prediction of the usual steps one of the run."""

    @wraps(predict)
    def predicted(self: Self, rule: Rule, /, *after: After.args, **named: After.kwargs) -> Speedup | None:
        gain = predict(self, rule, *after, **named)
        return gain if rule.remedy is None or rule.remedy.over == "run" else of_run(gain, self.facts)

    return predicted


def of_run(gain: Speedup | None, facts: Facts) -> Speedup | None:
    """The gain for the run of one for its usual steps."""
    part = part_of_run(facts)
    if gain is None or part == 1:
        return gain
    return _of_all(gain[0], part), None if gain[1] is None else _of_all(gain[1], part)


def _of_all(gain: float, part: float) -> float:
    return 1 / (1 - part + part / max(gain, _LEAST))


def told(remedy: Remedy | None, facts: Facts) -> str:
    """The assumption behind such a gain; "" if the steps are all of the run."""
    part = part_of_run(facts)
    if part == 1 or remedy is None or remedy.over == "run":
        return ""
    return f"the gain is of the whole run, of which these steps without the slow phase are {spoken(part, 'share')}"
