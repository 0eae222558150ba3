"""Whether a comparison tests a prediction: one run is the other plus the patch of the prediction."""

from diagnose.commands.compare.answer import Changed, Comparison
from diagnose.commands.compare.configuration import VERSIONS
from diagnose.probes.apply.allowed import ALLOWED

_MACHINE = ("device", "ranks")
_SETTABLE = frozenset(key for keys in ALLOWED.values() for key in keys)


def is_patch_alone(comparison: Comparison) -> bool:
    """Whether run B is run A plus a patch, as far as both records show, and the speed-up is measured.

    Other versions, another machine, or a setting with another value that the patch does not set are further changes.
    """
    prediction = comparison.promise
    if prediction is None or prediction.patched != "after" or prediction.measured is None:
        return False
    own = {key for patch in prediction.applied.patches for key in patch.set}
    machine = any(changed.what in _MACHINE for changed in comparison.work)
    return not machine and not any(_is_further(changed, own) for changed in comparison.configuration)


def _is_further(changed: Changed, own: set[str]) -> bool:
    key = changed.what.rpartition(".")[2]
    other_value = changed.before is not None and changed.after is not None
    return changed.what.startswith(VERSIONS) or (other_value and key in _SETTABLE and key not in own)
