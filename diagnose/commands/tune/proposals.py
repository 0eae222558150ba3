"""Choose the next change: the first of the plan that a run can make, then what a search of a number proposes."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import expm1, log
from typing import Any, Literal

from diagnose.commands.tune.answer import Rung, Settings
from diagnose.commands.tune.evidence import usually_apart
from diagnose.commands.tune.settings import (
    ACCUMULATION,
    CADENCES,
    CLOSE,
    MICRO_BATCH,
    OTHER_SAMPLES,
    WORKERS,
    can_be_set,
    hardly_differs,
    keeps_global_batch,
    keys_of,
    merged,
    settings_of,
    value_of,
    whole,
)
from diagnose.diagnosis import Diagnosis, Patch, PlanStep, Speedup
from diagnose.diagnosis.terms import expected_range
from diagnose.patch.job_framework import in_short
from diagnose.patch.patches import reachable

LARGEST_MICRO_BATCH = 4096
_STILL_WAITS = 0.02  # of the step: below, more workers are not searched
_SMALL = 3.0  # times what equal runs usually lie apart


@dataclass(frozen=True)
class Proposal:
    """A change to try: in the user's terms, and as settings of a run.

    `predicted` is of this change alone, or none if a search proposes it.
    """

    rule: str
    change: str
    patch: Patch
    settings: Settings
    predicted: Speedup | None = None


def next_proposal(
    best: Diagnosis, rungs: Sequence[Rung], allow_numerics: bool, noise_share: float | None = None
) -> Proposal | None:
    """The next change with which the best run may get faster; None if there is none left.

    Args:
        best: the diagnosis of the run that stands.
        rungs: all runs so far.
        allow_numerics: whether the change may alter what training computes.
        noise_share: how far repeats of a run lie apart; None for the usual distance.
    """
    in_use = next((rung.settings for rung in reversed(rungs) if rung.stands), {})
    tried = [rung.own for rung in rungs]
    for proposal in changes_of(best, allow_numerics, noise_share, apart_share(rungs)):
        if not any(hardly_differs(proposal.settings, known) for known in (*tried, in_use)):
            return proposal
    for proposal in _searched(best, rungs, allow_numerics):
        if proposal.settings not in tried and merged(in_use, proposal.settings) != in_use:
            return proposal
    return None


def changes_of(
    best: Diagnosis, allow_numerics: bool, noise_share: float | None = None, apart: float = 0.0
) -> tuple[Proposal, ...]:
    """The changes that a run can make: those of the plan in its order, then findings outside it.

    A plan holds one of several changes that exclude each other; the others are what is left if that one fails.
    """
    return tuple(
        _proposal(best, step, step.patch)
        for step in (*best.plan, *_beside_the_plan(best))
        if step.patch is not None and not why_not(best, step, allow_numerics, noise_share, apart)
    )


def _beside_the_plan(best: Diagnosis) -> Iterator[PlanStep]:
    planned = {step.rule for step in best.plan}
    for finding in best.findings:
        if finding.rule not in planned:
            yield PlanStep(
                rule=finding.rule,
                patch=finding.patch,
                predicted_speedup=finding.predicted_speedup,
                usual_speedup=finding.usual_speedup,
                numerics=finding.numerics,
            )


def _hidden_by(best: Diagnosis, step: PlanStep, noise_share: float | None, apart: float) -> str:
    """Why no short run would show the change; "" if one would.

    Even the change's best case alone saves less than two runs can show. That is how far equal runs lie apart, usually
    or in this tune, and how well the mean of the steps of one is known.
    """
    saved = _most_saved(_alone(best, step))
    noise = _facts(best).get("step_noise_share")
    of_mean = noise / max(len(best.steps.unprofiled_ns), 1) ** 0.5 if isinstance(noise, int | float) else 0.0
    if saved is None or saved >= max(usually_apart(best, noise_share), of_mean, apart if noise_share is None else 0.0):
        return ""
    if noise_share is None and saved < apart:
        return f"even its best case saves {100 * saved:.1f} %, and equal runs here lie {100 * apart:.1f} % apart"
    return "even its best case is within the noise of equal runs, so that no short run would show it"


def is_small(best: Diagnosis, proposal: Proposal) -> bool:
    """Whether the best case of a change saves so little that the noise of this machine decides whether to try it."""
    saved = _most_saved(proposal.predicted)
    return saved is not None and saved < _SMALL * usually_apart(best, None)


def apart_share(rungs: Sequence[Rung]) -> float:
    """Distance of the mean steps of runs with equal settings, as a share: the root mean square over all repeats.

    It is 0 if no run was made again.
    """
    squares = [log(factor) ** 2 for factor in factors_apart(rungs)]
    return expm1((sum(squares) / len(squares)) ** 0.5) if squares else 0.0


def factors_apart(rungs: Sequence[Rung]) -> list[float]:
    """Ratio of the mean steps of two runs with equal settings, the slower over the faster, of all repeats."""
    pairs = [(rungs[rung.repeats].measured, rung.measured) for rung in rungs if rung.repeats is not None]
    known = [(a.step_ms, b.step_ms) for a, b in pairs if a is not None and b is not None]
    return [max(one / other, other / one) for one, other in known if one and other]


def _most_saved(gain: Speedup | None) -> float | None:
    """The share of the step that is saved in the best case; None if it is not known."""
    return None if gain is None or gain[1] is None else 1 - 1 / gain[1]


def _proposal(best: Diagnosis, step: PlanStep, patch: Patch) -> Proposal:
    finding = best.finding(step.rule)
    change = in_short(patch).removeprefix("set ") or (finding.action if finding else "") or step.rule
    return Proposal(step.rule, change, patch, settings_of(patch), _alone(best, step))


def _alone(best: Diagnosis, step: PlanStep) -> Speedup | None:
    """The gain of a planned change without those before it in the plan."""
    finding = best.finding(step.rule)
    return expected_range(finding or step)


def why_not(
    best: Diagnosis, step: PlanStep, allow_numerics: bool, noise_share: float | None = None, apart: float = 0.0
) -> str:
    """Why no run tries a planned change; "" if one does. `apart` is how far equal runs of the tune lie apart."""
    if step.patch is None:
        return "needs a change of your code or of the machine"
    settings = settings_of(step.patch)
    if step.patch.typed_because:
        return f"no run can set it: {step.patch.typed_because}"
    if not reachable(step.patch) or not can_be_set(settings):
        return "no run can set it: it is yours to type"
    if keys_of(settings) <= CADENCES:
        return "what it buys is spread over the whole run, and no short one shows it"
    if step.numerics and not allow_numerics and not keeps_global_batch(settings, _facts(best)):
        return "it alters what training computes: allow it with --allow-numerics"
    if keys_of(settings) & OTHER_SAMPLES and not allow_numerics:
        return "it leaves samples out: allow it with --allow-numerics"
    return _hidden_by(best, step, noise_share, apart)


def _searched(best: Diagnosis, rungs: Sequence[Rung], allow_numerics: bool) -> Iterator[Proposal]:
    """Proposals of the searches of micro-batch and workers; each search starts from a change that sets the number."""
    yield from _batches(best, rungs, allow_numerics)
    yield from _workers(best, rungs)


def _batches(best: Diagnosis, rungs: Sequence[Rung], allow_numerics: bool) -> Iterator[Proposal]:
    facts = _facts(best)
    origin = _origin(rungs, (MICRO_BATCH,)) or _finding_that_sets(best, MICRO_BATCH)
    batch, steps = whole(facts.get("micro_batch_size")), whole(facts.get("accumulation_steps"))
    if origin is None or batch is None or steps is None:
        return
    total = batch * steps
    shared = [value for value in range(batch + 1, min(total, LARGEST_MICRO_BATCH) + 1) if total % value == 0]
    values = range(batch + 1, LARGEST_MICRO_BATCH + 1) if allow_numerics else shared
    value = next_value(values, batch, _trials(rungs, (MICRO_BATCH,)))
    if value is not None:
        keys = {MICRO_BATCH: value, ACCUMULATION: max(total // value, 1)}
        yield _with(origin, keys)


def _workers(best: Diagnosis, rungs: Sequence[Rung]) -> Iterator[Proposal]:
    origin, trials = _origin(rungs, WORKERS), _trials(rungs, WORKERS)
    in_use = next((rung.settings for rung in reversed(rungs) if rung.stands), {})
    count = whole(value_of(in_use, *WORKERS)) or whole(_facts(best).get("loader_worker_count")) or 0
    waits = _facts(best).get("data_wait_share")
    if origin is None or not isinstance(waits, int | float) or waits < _STILL_WAITS:
        return
    cores = len(os.sched_getaffinity(0))
    value = next_value(range(1, cores + 1), count, trials)
    if value is not None:
        key = next(name for name in WORKERS if value_of(settings_of(origin[1]), name) is not None)
        yield _with(origin, {key: value})


def _with(origin: tuple[str, Patch], keys: dict[str, Any]) -> Proposal:
    """The patch with other values; notes on its first value stay with that one."""
    rule, patch = origin
    changed = Patch(target=patch.target, set={**patch.set, **keys}, install=patch.install)
    return Proposal(rule, in_short(changed).removeprefix("set "), changed, settings_of(changed))


def _origin(rungs: Sequence[Rung], keys: Sequence[str]) -> tuple[str, Patch] | None:
    """Rule and patch of the first run that set one of the keys."""
    found = (rung for rung in rungs if rung.patch is not None and value_of(rung.own, *keys) is not None)
    return next(((rung.rule, rung.patch) for rung in found if rung.patch is not None), None)


def _finding_that_sets(best: Diagnosis, key: str) -> tuple[str, Patch] | None:
    """Rule and patch of the finding that would set the key, whatever else rules out its own value."""
    for finding in best.findings:
        if finding.patch is not None and key in finding.patch.set and can_be_set(settings_of(finding.patch)):
            return finding.rule, finding.patch
    return None


Trial = Literal["better", "no better", "failed"]


def _trials(rungs: Sequence[Rung], keys: Sequence[str]) -> dict[int, Trial]:
    trials: dict[int, Trial] = {}
    for rung in rungs:
        value = whole(value_of(rung.own, *keys))
        if value is not None:
            trials[value] = "better" if rung.stands else "no better" if rung.outcome == "ok" else "failed"
    return trials


def _facts(best: Diagnosis) -> dict[str, Any]:
    return {fact.name: fact.value for fact in best.facts}


# Search the best value of a number that speeds a job up to a point: double it until it fails, then bisect.


def next_value(values: Sequence[int], in_use: int, trials: Mapping[int, Trial]) -> int | None:
    """The next value to try; None if the search is over.

    A value that failed bounds the search, and the values between it and the best are bisected. One that ran and was no
    better ends it: larger values gain nothing.

    Args:
        values: those that may be tried, ascending.
        in_use: that of the best run so far.
        trials: the results of those that were tried.
    """
    above = {value: trial for value, trial in trials.items() if value > in_use}
    if "no better" in above.values():
        return None
    failed = min((value for value, trial in above.items() if trial == "failed"), default=None)
    if failed is None:
        return next((value for value in values if value >= 2 * max(in_use, 1)), None)
    between = [value for value in values if in_use < value < failed]
    if not between or failed <= CLOSE * in_use:
        return None
    return between[len(between) // 2]
