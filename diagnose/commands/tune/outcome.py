"""The result of a tune: the kept changes as they are typed, and those that are left to the user."""

from collections.abc import Sequence

from msgspec.structs import replace

from diagnose.commands.tune.answer import LeftToUser, Rung, Settings
from diagnose.commands.tune.proposals import apart_share, finding_of, why_not
from diagnose.commands.tune.settings import keys_of
from diagnose.diagnosis import Diagnosis, Patch
from diagnose.patch.patches import python_lines


def final_patch(rungs: Sequence[Rung], best: Diagnosis) -> tuple[str, ...]:
    """The kept changes as they are typed: a setting that was changed twice appears once, with its last value."""
    together: dict[str, Patch] = {}
    for rung in rungs:
        if rung.decision == "kept" and rung.patch is not None:
            patch, known = _made(rung.patch, rung.settings), together.get(rung.patch.target)
            if known is not None:
                install = tuple(dict.fromkeys([*known.install, *patch.install]))
                patch = replace(patch, set={**known.set, **patch.set}, install=install)
            together[patch.target] = patch
    return tuple(line for patch in together.values() for line in python_lines(patch, best.versions))


def _made(patch: Patch, settings: Settings) -> Patch:
    """The patch without the settings that the job refused."""
    if patch.by_run:
        return patch
    return replace(patch, set={key: value for key, value in patch.set.items() if key in keys_of(settings)})


def left_to_user(
    first: Diagnosis, best: Diagnosis, rungs: Sequence[Rung], allow_numerics: bool, noise_share: float | None = None
) -> tuple[LeftToUser, ...]:
    """The planned changes of the best run that no run tried, or that the job refused, and why.

    Lines of code are those of the first run, which alone looks for them.
    """
    refused = {rung.rule: rung.because for rung in rungs if rung.decision == "refused"}
    left, tried = [], {rung.rule for rung in rungs}
    for step in best.plan:
        apart = 0.0 if step.rule in tried else apart_share(rungs)
        because = why_not(best, step, allow_numerics, noise_share, apart) or refused.get(step.rule, "")
        if because:
            finding = finding_of(best, step.rule)
            said = step.patch is not None and python_lines(step.patch, best.versions)
            change = "; ".join(said) if said else (finding.action if finding else "") or step.rule
            do = finding.do if finding is not None and not said else ""
            seen = finding_of(first, step.rule)
            left.append(
                LeftToUser(
                    rule=step.rule,
                    change=change,
                    because=because,
                    do=do,
                    predicted=step.predicted_speedup,
                    where=seen.where if seen is not None else (),
                )
            )
    return tuple(left)
